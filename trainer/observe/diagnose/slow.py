"""The device that the others wait for."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from trainer.observe.diagnose.gpus import IDLE, Gpu, Gpus, mean_of


@dataclass(frozen=True)
class Slow:
    """Devices that hold the others up: the part of their time that the others lose, 0-1, and how sure that is."""

    names: tuple[str, ...]
    share: float
    strength: float
    evidence: str


# A clock this much below the others' is a fault, not the spread between boards (a few %).
SLOW_CLOCK = 0.88
# So many points of utilisation between one device and the others, in nearly all readings, are no chance.
UTIL_POINTS = 12.0
UTIL_READINGS = 0.85
STALLED = 0.2
MANY_READINGS = 12
BY_CHANCE = 0.01


def slow_devices(gpus: Gpus, but: Sequence[str] = ()) -> Slow | None:
    """The few devices that differ from the others all the time, if any; those named in `but` are not looked at."""
    each = [gpu for gpu in gpus.each if gpu.name not in but]
    return _by_clock(each) or _by_util(each, gpus.stalled)


def _by_clock(each: list[Gpu]) -> Slow | None:
    clocks = {gpu.name: median(gpu.working_clocks) for gpu in each if gpu.working_clocks}
    if len(clocks) < 2:
        return None
    usual = median(clocks.values()) if len(clocks) > 2 else max(clocks.values())
    slow = [name for name, clock in clocks.items() if clock < SLOW_CLOCK * usual]
    if not slow or 2 * len(slow) > len(clocks):
        return None
    lowest = min(clocks[name] for name in slow)
    text = f"GPU {', '.join(slow)} runs at {lowest:,.0f} MHz, the others at {usual:,.0f} MHz"
    waits = _wait_of_others(each, slow)
    return Slow(tuple(slow), max(1 - lowest / usual, waits), 0.9, text)


def _wait_of_others(each: list[Gpu], slow: Sequence[str]) -> float:
    """How much less busy the others are than a slow device, as a share of its busy time."""
    busy = mean_of([gpu.mean("util") for gpu in each if gpu.name in slow])
    others = mean_of([gpu.mean("util") for gpu in each if gpu.name not in slow])
    return max(0.0, 1 - others / busy) if busy and others is not None else 0.0


def _by_util(each: list[Gpu], stalled: float) -> Slow | None:
    """The one (of three or more; of two the busier) whose utilisation is off in nearly every reading."""
    known = [gpu for gpu in each if gpu.mean("util") is not None and len(gpu.util) >= 3]
    if len(known) < 2:
        return None
    if stalled > STALLED:
        return _never_idle(known)
    by_util = sorted(known, key=lambda gpu: gpu.mean("util"))
    for gpu in (by_util[-1], by_util[0]) if len(known) > 2 else (by_util[-1],):
        others = [other for other in known if other is not gpu]
        gap = gpu.mean("util") - median(other.mean("util") for other in others)
        spread = max(other.mean("util") for other in others) - min(other.mean("util") for other in others)
        if abs(gap) >= max(UTIL_POINTS, 1.5 * spread) and _off_all_the_time(gpu, others, gap) >= UTIL_READINGS:
            return _odd_one(gpu, others, gap)
    return None


def _never_idle(known: list[Gpu]) -> Slow | None:
    """Where the devices stall, who is busy in a reading is chance; but not who is busy in each of many."""
    many = [gpu for gpu in known if len(gpu.util) >= MANY_READINGS]
    steady = [gpu for gpu in many if min(util for util in gpu.util if util is not None) > IDLE]
    if len(steady) != 1 or len(known) < 3:
        return None
    others = [util for gpu in known if gpu is not steady[0] for util in gpu.util if util is not None]
    busy = sum(util > IDLE for util in others) / len(others)
    if len(known) * busy ** len(steady[0].util) > BY_CHANCE:
        return None
    return _odd_one(steady[0], [gpu for gpu in known if gpu is not steady[0]], 1.0)


def _off_all_the_time(gpu: Gpu, others: list[Gpu], gap: float) -> float:
    sides = [
        (mine - middle) * gap > 0
        for row, mine in enumerate(gpu.util)
        if mine is not None and (middle := _middle(others, row)) is not None
    ]
    return sum(sides) / len(sides) if sides else 0.0


def _middle(others: list[Gpu], row: int) -> float | None:
    known = [other.util[row] for other in others if other.util[row] is not None]
    return median(known) if known else None


def _odd_one(gpu: Gpu, others: list[Gpu], gap: float) -> Slow:
    usual = median(other.mean("util") for other in others)
    text = f"GPU {gpu.name} is busy {gpu.mean('util'):.0f} %, the others {usual:.0f} %, in nearly every reading"
    if gap > 0:
        return Slow((gpu.name,), 1 - usual / gpu.mean("util"), 0.75, text + ": they wait for it")
    return Slow((gpu.name,), (usual - gpu.mean("util")) / 100, 0.6, text)
