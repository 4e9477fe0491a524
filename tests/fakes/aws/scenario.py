"""What the double of AWS pretends: a TOML file, read and checked. Times are relative to the start of the double."""

import re
import tomllib
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
FOREVER = 10.0**9


def parse_seconds(value: Any) -> float:
    """Seconds from a number, "90s", "-3d", "+2h", "forever" or, as an offset from now, a point of time."""
    if isinstance(value, datetime):
        return (value - datetime.now(UTC)).total_seconds()
    if isinstance(value, int | float):
        return float(value)
    if value == "forever":
        return FOREVER
    match = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)([smhd])", str(value))
    if not match:
        raise ValueError(f'must be seconds, "90s", "-3d", "forever" or a date with its time zone, got {value!r}')
    return float(match[1]) * UNITS[match[2]]


def parse_series(value: Any) -> Any:
    """One value that always held, or rows [since when, value]: what changes over time. Oldest first."""
    if not isinstance(value, list):
        value = [["-1h", value]]
    rows = [(parse_seconds(since), number) for since, number in value]
    return tuple(sorted(rows))


Seconds = Annotated[float, BeforeValidator(parse_seconds)]
Series = Annotated[tuple[tuple[float, float], ...], BeforeValidator(parse_series)]
Tags = dict[str, str]


class Table(BaseModel):
    """A table of the file: no unknown keys, and it never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Region(Table):
    opt_in: Literal["opt-in-not-required", "opted-in", "not-opted-in"] = "opt-in-not-required"
    zones: Tags = {}  # name -> zone id; empty: a, b and c
    local_zones: Tags = {}
    local_zones_opted_in: bool = False
    default_vpc: bool = True


class InstanceType(Table):
    vcpus: int
    memory_mib: int
    gpu: str = ""
    gpus: int = 0
    gpu_memory_mib: int = 0
    hypervisor: Literal["nitro", "xen"] = "nitro"
    architecture: Literal["x86_64", "arm64"] = "x86_64"


class Offer(Table):
    """Instance types that zones of a region offer. Without a price of a kind, AWS names none."""

    region: str
    instance_types: tuple[str, ...]
    zones: tuple[str, ...] = ()  # empty: every zone of the region, local zones excepted
    on_demand_usd_per_hour: float | None = None
    spot_usd_per_hour: Series = ()
    descriptions: tuple[str, ...] = ("Linux/UNIX",)
    spot_capacity: Series = ()  # instances at once, a zone; empty: no limit
    on_demand_capacity: Series = ()
    score: int = 5


class Quota(Table):
    region: str = "*"
    market: Literal["spot", "on_demand"]
    family: Literal["standard", "p", "p5", "g"]
    vcpus: int


class Snapshot(Table):
    id: str
    region: str
    size_gib: int
    tags: Tags = {}
    state: Literal["pending", "completed", "error"] = "completed"
    encrypted: bool = False
    kms_key: str = ""  # name of one of the keys; empty with encrypted: the region's AWS managed key
    started: Seconds = -86400.0


class Image(Table):
    id: str
    region: str
    name: str = "debian-12-amd64"
    architecture: str = "x86_64"
    tags: Tags = {}
    size_gib: int = 8
    ssm_parameter: str = ""
    public: bool = True
    created: Seconds = -86400.0


class Key(Table):
    name: str  # its alias is alias/NAME
    region: str
    enabled: bool = True


class Instance(Table):
    """One that stands there when the double starts; with request, from an open spot request of that type."""

    region: str
    zone: str
    instance_type: str
    market: Literal["spot", "on_demand"] = "on_demand"
    state: Literal["running", "stopped"] = "running"
    launched: Seconds = 0.0
    ended: Seconds | None = None  # terminated since then: by AWS when taken_back, else by its user
    taken_back: bool = False
    request: Literal["", "one-time", "persistent"] = ""
    tags: Tags = {}
    request_tags: Tags = {}


class Volume(Table):
    region: str
    zone: str
    size_gib: int
    tags: Tags = {}


class Fault(Table):
    """What goes wrong with matching calls, one after another. README.md says what each word of `codes` does."""

    action: str = "*"
    region: str = "*"
    zone: str = "*"
    instance_type: str = "*"
    market: str = "*"
    codes: tuple[str, ...]
    after: int = 0
    forever: bool = False
    message: str = ""


class Latency(Table):
    action: str = "*"
    region: str = "*"
    seconds: float


class Throttle(Table):
    """A token bucket for each action and region that matches."""

    action: str = "*"
    region: str = "*"
    per_second: float
    burst: int


class Timing(Table):
    """How long things take in a region, in seconds; the first matching row counts."""

    region: str = "*"
    pending: Seconds = 0.0
    addresses: Seconds = 0.0  # until a new instance has its public address
    shutting_down: Seconds = 0.0
    stopping: Seconds = 0.0
    volume: Seconds = 0.0
    volume_ends: Literal["available", "error"] = "available"
    attach: Seconds = 0.0
    detach: Seconds = 0.0
    snapshot: Seconds = 0.0
    copying: Seconds = 0.0
    copying_ends: Literal["completed", "error"] = "completed"
    copying_message: str = "Given key ID is not accessible"
    image: Seconds = 0.0
    fast_restore: Seconds = 0.0
    initialise: Seconds = 0.0  # a volume from a snapshot, until all of it has been read
    open_request: Seconds = 0.0  # until a spot request is fulfilled
    relaunch: Seconds = 0.0  # until a persistent request launches again
    ids: Seconds = 0.0  # until a new id is found
    tags: Seconds = 0.0  # until the tags of a new thing are seen
    profiles: Seconds = 0.0  # until EC2 knows a new instance profile


class Scenario(Table):
    regions: dict[str, Region] = {}  # empty: those that offers and snapshots name
    instance_types: dict[str, InstanceType] = {}
    offers: tuple[Offer, ...] = ()
    quotas: tuple[Quota, ...] = ()
    snapshots: tuple[Snapshot, ...] = ()
    images: tuple[Image, ...] = ()
    keys: tuple[Key, ...] = ()
    instances: tuple[Instance, ...] = ()
    volumes: tuple[Volume, ...] = ()
    faults: tuple[Fault, ...] = ()
    latency: tuple[Latency, ...] = ()
    throttle: tuple[Throttle, ...] = ()
    timing: tuple[Timing, ...] = ()
    policies: dict[str, tuple[dict[str, Any], ...]] = {}  # access key -> IAM documents; a key without any may do all
    page_sizes: dict[str, int] = {}  # action -> most rows a page, whatever the caller asks for
    empty_pages: bool = False  # a page without rows, but with a token, before each page
    addresses: tuple[str, ...] = ()  # handed to instances in turn; empty: TEST-NET-3
    console: str = ""  # what every instance prints on its console

    def region_names(self) -> list[str]:
        named = {row.region for rows in (self.offers, self.snapshots, self.images) for row in rows}
        return sorted(self.regions or named)

    def timing_of(self, region: str) -> Timing:
        return next((row for row in self.timing if fnmatchcase(region, row.region)), Timing())


def read_scenario(path: Path) -> Scenario:
    """The checked scenario; raises OSError, or ValueError that names table, key and value."""
    return Scenario.model_validate(tomllib.loads(Path(path).read_text()))


def value_at(series: Series, offset: float) -> float | None:
    """The value of the newest row that is not in the future; None when there is none."""
    return next((value for since, value in reversed(series) if since <= offset), None)
