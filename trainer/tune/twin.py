"""A model of a host, measured in virtual time: to plan before renting, and to test the search.

throughput = min(gpus x rate(batch / gpus), decode, disk); the rate is linear between the table's points, flat above the
last and through the origin below the first. decode = per thread / ((1 - p) + p / min(threads, vcpus)) is Amdahl's law.
"""

import bisect
import difflib
import random
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainer.errors import ConfigError
from trainer.tune.figures import DoesNotFitError, Measured, Probe, is_known

# A probe is a process of its own: it starts, plans its memory and warms up.
START_SECONDS = 20.0
# One measurement: some steps, long enough for the clock.
MEASUREMENT_SECONDS = 2.0
SHIPPED = Path(__file__).parent / "twins"

Whole = Annotated[int, Field(gt=0, strict=True)]
Number = Annotated[float, Field(gt=0, strict=True)]
FromZero = Annotated[float, Field(ge=0, strict=True)]


class Twin(BaseModel):
    """A host as numbers; each description says what the value must be."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    vcpus: Whole = Field(description="a whole number above 0")
    gpus: Whole = Field(description="a whole number above 0")
    gpu_memory_mb: Number = Field(description="MB of each device, a number above 0")
    decode_images_per_second_per_thread: Number = Field(description="a number above 0")
    decode_parallel_fraction: FromZero = Field(le=1, description="a number from 0 to 1")
    memory_mb_fixed: FromZero = Field(description="a number of 0 or more")
    memory_mb_per_image: Number = Field(description="a number above 0")
    disk_mb_per_second: Number = Field(description="a number above 0")
    image_kb: Number = Field(description="a number above 0")
    noise: FromZero = Field(lt=0.3, description="a number of 0 or more, below 0.3")
    gpu_images_per_second: dict[Whole, Number] = Field(
        min_length=1, description="a table of batch on one device = images/s, each above 0"
    )

    def rate(self, images: float) -> float:
        """images/s of one device with that many images a step."""
        batches = sorted(self.gpu_images_per_second)
        above = bisect.bisect_left(batches, images)
        if above == len(batches):
            return self.gpu_images_per_second[batches[-1]]
        low, high = ([0, *batches])[above], batches[above]
        low_rate = self.gpu_images_per_second.get(low, 0.0)
        return low_rate + (self.gpu_images_per_second[high] - low_rate) * (images - low) / (high - low)

    def network(self, batch: int) -> float:
        return self.gpus * self.rate(batch / self.gpus)

    def decode(self, threads: int) -> float:
        p = self.decode_parallel_fraction
        return self.decode_images_per_second_per_thread / ((1 - p) + p / min(threads, self.vcpus))

    def disk(self) -> float:
        return 1000 * self.disk_mb_per_second / self.image_kb

    def throughput(self, batch: int, threads: int) -> float:
        return min(self.network(batch), self.decode(threads), self.disk())

    def memory_mb(self, batch: int) -> float:
        return self.memory_mb_fixed + self.memory_mb_per_image * batch / self.gpus

    def fits(self, batch: int) -> bool:
        return self.memory_mb(batch) <= self.gpu_memory_mb


def load_twin(path: Path) -> Twin:
    """The twin in a TOML file, or the shipped one of that name; ConfigError lists every problem."""
    shipped = SHIPPED / f"{path.name.removesuffix('.toml')}.toml"
    found = shipped if not path.exists() and path.parent == Path() and shipped.exists() else path
    try:
        values = tomllib.loads(found.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        names = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.toml")))
        raise ConfigError(f"{path}: must be readable TOML, or one of {names}, got: {error}") from error
    try:
        return Twin.model_validate(_with_whole_batches(values))
    except ValidationError as error:
        raise ConfigError(*dict.fromkeys(f"{path}: {_problem(fault)}" for fault in error.errors())) from error


def _with_whole_batches(values: dict) -> dict:
    """TOML's keys are text; what is no number stays, for the error to name it."""
    table = values.get("gpu_images_per_second")
    if not isinstance(table, dict):
        return values
    numbers = {int(key) if key.isdecimal() else key: rate for key, rate in table.items()}
    return values | {"gpu_images_per_second": numbers}


def _problem(fault: dict) -> str:
    key = str(fault["loc"][0])
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, Twin.model_fields, n=1)
        return f"{key} must be a known key{f' (did you mean {near[0]}?)' if near else ''}, got {fault['input']!r}"
    place = "".join(f"[{part}]" for part in fault["loc"][1:2])
    got = "nothing" if fault["type"] == "missing" else f"{fault['input']!r}"
    return f"{key}{place} must be {Twin.model_fields[key].description}, got {got}"


@dataclass
class TwinProber:
    """Measures a twin. The noise is that of one measurement, and each is drawn by itself."""

    twin: Twin
    seed: int
    budget_seconds: float
    spent_seconds: float = 0.0
    generator: random.Random = field(init=False)

    def __post_init__(self):
        self.generator = random.Random(self.seed)

    def seconds_for(self, most_seconds: float) -> float:
        return START_SECONDS + most_seconds

    def seconds_left(self) -> float:
        return self.budget_seconds - self.spent_seconds

    def most_batch(self) -> None:
        return None

    def __call__(self, probe: Probe) -> Measured:
        self.spent_seconds += START_SECONDS
        has_network = probe.what in ("training", "network", "proof")
        if has_network and not self.twin.fits(probe.batch):
            raise DoesNotFitError
        rates: list[float] = []
        most = int(probe.effort.most_seconds / MEASUREMENT_SECONDS)
        while len(rates) < most and not is_known(rates, probe.effort.confidence_share, probe.noise):
            rates.append(self._true_rate(probe) * max(0.01, self.generator.gauss(1, self.twin.noise)))
            self.spent_seconds += MEASUREMENT_SECONDS
        return Measured(tuple(rates), self.twin.memory_mb(probe.batch) if has_network else None)

    def _true_rate(self, probe: Probe) -> float:
        twin = self.twin
        if probe.what == "network":
            return twin.network(probe.batch)
        if probe.what == "input":
            return min(twin.decode(probe.threads), twin.disk())
        return twin.disk() if probe.what == "disk" else twin.throughput(probe.batch, probe.threads)
