"""Which samples count: the last stretch of one setting, without its warm-up and without its silent end."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trainer.observe.diagnose.pauses import gets_new_work, set_apart
from trainer.observe.series import Series, numbers

# Two samples this far apart (and 20 times further than usual) have another start of the run between them.
GAP_SECONDS = 60.0
# No step for this long is worth a look; and for 5 times as long as one usually takes, it is a standstill.
STANDSTILL_SECONDS = 10.0
STANDSTILL_STEPS = 5
# With nothing trained at all meanwhile, less is enough.
SILENT_SECONDS = 5.0
SILENT_STEPS = 1.5
# Validations and checkpoints are pauses, too: a standstill is longer than any pause before.
LONGEST_PAUSES = 1.5
# The same for a pause in which the devices get new work: a validation of ImageNet on few of them takes minutes.
VALIDATION_SECONDS = 600.0
# Before the first step, libraries choose algorithms and plan memory: minutes are usual on many devices.
START_SECONDS = 30.0
# The first samples of a run are warm-up while they are slower than this part of what follows.
WARM_SHARE = 0.5
# What is judged is at least this part of all.
LEAST_PART = 1 / 3


@dataclass(frozen=True)
class Window:
    """`steady`: the samples to judge. `standstill`: those after the last step when there is a standstill, else none."""

    steady: Sequence[dict]
    standstill: Sequence[dict]
    standstill_seconds: float
    all: Sequence[dict]
    idle_share: float = 0.0
    """The part of the steady samples in pauses in which the devices are idle and do not wait for data, 0-1."""


def window(samples: Sequence[dict]) -> Window:
    """The samples that tell how the run is doing now."""
    stretch = _last_stretch(_in_order(samples))
    training = [sample for sample in stretch if sample.get("activity") in (None, "training")] or stretch
    last_move = _last_move(training)
    tail = training[last_move:]
    seconds = seconds_of(tail)
    if not _stands_still(training, tail, seconds):
        return _going_on(training, stretch)
    if seconds < VALIDATION_SECONDS and gets_new_work(tail[len(tail) // 2 :]):
        return _going_on(training[: last_move + 1], stretch)
    return Window(_warm(training[: last_move + 1]), tail, seconds, stretch)


def _going_on(training: list[dict], stretch: Sequence[dict]) -> Window:
    steady = _warm(training)
    usual, _ = _pauses(steady)
    pauses = set_apart(steady, times(steady), max(SILENT_SECONDS, SILENT_STEPS * usual))
    return Window(pauses.training, [], 0.0, stretch, pauses.idle_share)


def times(samples: Sequence[dict]) -> list[float]:
    """Seconds of each sample; one a second when they do not say."""
    known = numbers(samples, "t")
    return [float(row) if t is None else t for row, t in enumerate(known)] if None not in known else _counted(known)


def begun(samples: Sequence[dict]) -> bool:
    """Whether any step has been made, as far as the samples tell."""
    return any(numbers(samples, "steps")) or any(numbers(samples, "images_per_second"))


def seconds_of(samples: Sequence[dict]) -> float:
    moments = times(samples)
    return moments[-1] - moments[0] if moments else 0.0


def _counted(known: Series) -> list[float]:
    """Some times are missing: those that are there set the pace."""
    rows = [row for row, t in enumerate(known) if t is not None]
    if len(rows) < 2:
        return [float(row) for row in range(len(known))]
    pace = (known[rows[-1]] - known[rows[0]]) / (rows[-1] - rows[0])
    return [known[rows[0]] + (row - rows[0]) * pace if t is None else t for row, t in enumerate(known)]


def _in_order(samples: Sequence[dict]) -> list[dict]:
    """By time; the few whose time is missing are left out. Where most lack it they are in order as they come."""
    timed = [sample for sample, t in zip(samples, numbers(samples, "t"), strict=True) if t is not None]
    return sorted(timed, key=lambda sample: sample["t"]) if 2 * len(timed) > len(samples) else list(samples)


def _last_stretch(samples: list[dict]) -> list[dict]:
    """After the last start (steps went back, or nobody sampled for long) and the last change of the setting."""
    moments = times(samples)
    usual = median(_intervals(moments) or [1.0])
    begin = 0
    for row in range(1, len(samples)):
        pause = moments[row] - moments[row - 1]
        changed = any(_differ(samples, row, key, operator.ne) for key in ("decode_threads", "batch_size"))
        if changed or pause > max(GAP_SECONDS, 20 * usual) or _differ(samples, row, "steps", operator.gt):
            begin = row
    return samples[begin:]


def _differ(samples: list[dict], row: int, key: str, differ: Callable[[float, float], bool]) -> bool:
    old, new = numbers(samples[row - 1 : row + 1], key)
    return old is not None and new is not None and differ(old, new)


def _last_move(samples: list[dict]) -> int:
    """The first row of those that share the last known count of steps; without counts, the last with any speed."""
    steps = numbers(samples, "steps")
    known = [row for row, count in enumerate(steps) if count is not None]
    if known:
        return next(row for row in known if steps[row] == steps[known[-1]])
    speeds = numbers(samples, "images_per_second")
    moved = [row for row, speed in enumerate(speeds) if speed]
    if moved:
        return moved[-1]
    zeros = [row for row, speed in enumerate(speeds) if speed == 0]
    return zeros[0] if zeros else max(len(samples) - 1, 0)


def _stands_still(samples: list[dict], tail: list[dict], seconds: float) -> bool:
    steps, speeds = numbers(tail, "steps"), numbers(tail, "images_per_second")
    counted = [count for count in steps if count is not None]
    if len(tail) < 3 or not (counted or any(speed == 0 for speed in speeds)):
        return False
    silent_seconds = _silent_seconds(tail)
    if not begun(samples):
        return silent_seconds >= START_SECONDS
    usual, longest = _pauses(samples)
    if silent_seconds >= max(SILENT_SECONDS, SILENT_STEPS * usual, LONGEST_PAUSES * longest):
        return True
    return bool(counted) and seconds >= max(STANDSTILL_SECONDS, STANDSTILL_STEPS * usual, LONGEST_PAUSES * longest)


def _silent_seconds(tail: list[dict]) -> float:
    """How long nothing has been trained at the end: a speed of 0 was told, and none above it since."""
    speeds = numbers(tail, "images_per_second")
    begin = max((row + 1 for row, speed in enumerate(speeds) if speed), default=0)
    silent = tail[begin:]
    return seconds_of(silent) if 0 in speeds[begin:] else 0.0


def _pauses(samples: list[dict]) -> tuple[float, float]:
    """Seconds: what usually lies between two steps (or two readings of their count), and the longest that ever did."""
    paces = [pace for pace in numbers(samples, "step_seconds") if pace]
    speeds, batches = numbers(samples, "images_per_second"), numbers(samples, "batch_size")
    paces += [batch / speed for batch, speed in zip(batches, speeds, strict=True) if batch and speed]
    moments, steps = times(samples), numbers(samples, "steps")
    counted = [(moments[row], count) for row, count in enumerate(steps) if count is not None]
    moved = [later[0] for earlier, later in pairwise(counted) if later[1] != earlier[1]]
    # The first count may come after a whole interval between two counts.
    begin = [moments[0], counted[0][0]] if counted and steps[0] is None else []
    usual = median(_intervals(begin + moved) or [0.0])
    return max(min(paces, default=0.0), usual), max(_intervals(moved), default=0.0)


def _intervals(moments: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(moments)]


def _warm(samples: list[dict]) -> list[dict]:
    """Without the slow first samples."""
    speeds, most = numbers(samples, "images_per_second"), int((1 - LEAST_PART) * len(samples))
    usual = median([speed for speed in speeds[most:] if speed is not None] or [0.0])
    begin = 0
    while begin < most and (speeds[begin] or 0.0) < WARM_SHARE * usual:
        begin += 1
    return samples[begin:]
