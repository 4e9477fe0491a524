"""What the devices did: how busy they were and how they took turns, which one differs, which are gone.

Utilisation is the share of time in which any kernel ran, so its average hides stalls and a hang looks like work: its
distribution, the clocks and the temperatures stand beside it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from trainer.observe.history import is_number
from trainer.observe.series import Series, numbers

MEASURES = ("util", "mem_used_mb", "mem_total_mb", "power_w", "sm_clock_mhz", "temperature_c")
# A device is idle or busy in a reading below or above these, in %. Between them it was both within the second.
IDLE, BUSY = 30.0, 70.0
# The last so many lists tell whether a device is gone: one lost reading is no lost device.
LAST_LISTS = 3


@dataclass(frozen=True)
class Gpu:
    """One device, reading by reading; None where unknown."""

    name: str
    util: Series
    clock: Series
    power: Series
    temperature: Series
    memory: float | None
    """Share in use, 0-1."""
    thermal: float
    """Share of the readings in which heat held its clock down."""
    throttle_known: bool
    power_capped: float

    @property
    def working_clocks(self) -> list[float]:
        """In readings in which it was busy, if there are any: an idle device lowers its clock by itself."""
        known = [pair for pair in zip(self.clock, self.util, strict=True) if pair[0] is not None]
        busy = [clock for clock, util in known if util is None or util >= BUSY]
        return busy or [clock for clock, _ in known]

    def mean(self, what: str) -> float | None:
        return mean_of(getattr(self, what))


@dataclass(frozen=True)
class Gpus:
    """All devices in a window."""

    each: tuple[Gpu, ...]
    known: bool
    """Whether the samples say anything of devices; `each` is empty on a host without GPUs."""
    lost: int
    expected: int
    blind: bool
    """No device answers although steps go on: the driver's interface is at fault, not the devices."""

    @property
    def util(self) -> float | None:
        return mean_of([gpu.mean("util") for gpu in self.each])

    @property
    def stalled(self) -> float:
        """Share of all readings in which a device was idle, when it was busy in others (else 0), 0-1."""
        readings = [util for gpu in self.each for util in gpu.util if util is not None]
        idle = sum(util <= IDLE for util in readings)
        busy = sum(util >= BUSY for util in readings)
        return idle / len(readings) if readings and busy >= 0.1 * len(readings) else 0.0

    @property
    def switches(self) -> float:
        """Share of neighbouring readings between which a device went from busy to idle or back, 0-1."""
        pairs = [pair for gpu in self.each for pair in pairwise(gpu.util) if None not in pair]
        return sum(min(pair) <= IDLE and max(pair) >= BUSY for pair in pairs) / len(pairs) if pairs else 0.0

    @property
    def power_capped(self) -> list[str]:
        """Names of devices that mostly run at their power limit."""
        return [gpu.name for gpu in self.each if gpu.power_capped >= 0.5]

    @property
    def memory(self) -> float | None:
        """Share in use on the fullest device."""
        return max((gpu.memory for gpu in self.each if gpu.memory is not None), default=None)


def mean_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def read_gpus(steady: Sequence[dict], everything: Sequence[dict], moving: bool) -> Gpus:
    """The devices of the steady samples; `everything` tells which were there once. moving: whether steps go on."""
    lists = [sample["gpus"] for sample in everything if isinstance(sample.get("gpus"), list)]
    living = [sum(map(_lives, entries)) for entries in lists]
    expected = max([_expected(everything), *_seen_twice(living), *_seen_twice(list(map(len, lists)))])
    left = max(living[-LAST_LISTS:], default=expected)
    blind = moving and not left and expected > 0
    return Gpus(
        each=_each([sample["gpus"] for sample in steady if isinstance(sample.get("gpus"), list)]),
        known=bool(lists) and not blind,
        lost=0 if blind or not lists else expected - left,
        expected=expected,
        blind=blind,
    )


def _expected(samples: Sequence[dict]) -> int:
    known = [count for count in numbers(samples, "gpus_expected") if count is not None and 0 < count < 10_000]
    return int(known[-1]) if known else 0


def _seen_twice(devices: list[int]) -> list[int]:
    """Numbers of devices that more than one list had (one list is enough when there are few)."""
    counts = Counter(devices)
    return [count for count, lists in counts.items() if lists > 1 or len(devices) <= LAST_LISTS]


def _lives(entry) -> bool:
    return isinstance(entry, dict) and any(is_number(entry.get(key)) for key in MEASURES)


def _each(lists: list[list]) -> tuple[Gpu, ...]:
    if not lists:
        return ()
    # Without names a device is its place in the list, and a list that lost one has other places.
    usual = Counter(map(len, lists)).most_common(1)[0][0]
    rows, labels = [], {}
    for entries in lists:
        if not (len(entries) == usual or all(isinstance(entry, dict) and entry.get("uuid") for entry in entries)):
            continue
        living = {_identity(entry, place): (entry, place) for place, entry in enumerate(entries) if _lives(entry)}
        rows.append({identity: entry for identity, (entry, _) in living.items()})
        for identity, (entry, place) in living.items():
            labels.setdefault(identity, str(entry["index"] if is_number(entry.get("index")) else place))
    return tuple(_gpu(label, [row.get(identity, {}) for row in rows]) for identity, label in labels.items())


def _identity(entry: dict, place: int) -> str | int:
    return str(entry["uuid"]) if entry.get("uuid") else place


def _gpu(name: str, entries: list[dict]) -> Gpu:
    utils = [None if util is None else min(max(util, 0.0), 100.0) for util in numbers(entries, "util")]
    words = [str(entry.get("throttle") or "").lower() for entry in entries]
    used, total = mean_of(numbers(entries, "mem_used_mb")), mean_of(numbers(entries, "mem_total_mb"))
    return Gpu(
        name=name,
        util=utils,
        clock=[clock or None for clock in numbers(entries, "sm_clock_mhz")],
        power=numbers(entries, "power_w"),
        temperature=numbers(entries, "temperature_c"),
        memory=used / total if used is not None and total else None,
        thermal=sum("therm" in word for word in words) / len(words),
        throttle_known=any("throttle" in entry for entry in entries),
        power_capped=sum("power" in word for word in words) / len(words),
    )
