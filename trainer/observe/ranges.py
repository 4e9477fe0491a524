"""What training and machine did, at three ranges of time: the last minutes by the second, the last hours, the whole."""

from collections.abc import Iterable
from math import ceil

from trainer.observe.rollup import Rollup, Row, known
from trainer.observe.series import numbers

CPU = ("user", "system", "iowait", "idle")
# Of each device. `util_low` and `util_high` keep the stalls that a mean over minutes would hide.
GPU = ("util", "mem_used_mb", "power_w", "temperature_c")
_MACHINE = (*(("cpu", state) for state in CPU), ("disk", "read_mb_s"), ("host_memory", "available_mb"))
# A message brings the end of each curve up to date for whoever has missed those of so many seconds.
TAIL_SECONDS = 15


class Ranges:
    """Rows over time; `recent`: 10 minutes by the second, `hours`: 2 hours by 10 s, `whole`: all of it."""

    def __init__(self):
        self._rollups = {
            "recent": Rollup(1, 600, grows=False), "hours": Rollup(10, 720, grows=False),
            "whole": Rollup(1, 720, grows=True),
        }  # fmt: skip

    def add(self, t: float, row: Row) -> None:
        for rollup in self._rollups.values():
            rollup.add(t, row)

    @property
    def width(self) -> float:
        """Seconds of a bucket of `whole`."""
        return self._rollups["whole"].width

    def views(self, tail: bool) -> Iterable[tuple[str, Rollup, list[int]]]:
        for name, rollup in self._rollups.items():
            yield name, rollup, rollup.places(ceil(TAIL_SECONDS / rollup.width) + 1 if tail else None)


def speed_row(step: dict) -> Row:
    """Of a step event."""
    return [known(step.get("images_per_second")), known(step.get("data_wait_share"))]


def speed_json(ranges: Ranges, tail: bool = False) -> dict:
    """By range: {seconds, t, speed, speed_low, speed_high (images/s), wait (% of the time)}."""
    return {name: _speed(rollup, keys) for name, rollup, keys in ranges.views(tail)}


def _speed(rollup: Rollup, keys: list[int]) -> dict:
    wait = rollup.column("mean", 1, keys, 4)
    return {
        **_time(rollup, keys), "speed": rollup.column("mean", 0, keys, 1),
        "speed_low": rollup.column("low", 0, keys, 1),
        "speed_high": rollup.column("high", 0, keys, 1),
        "wait": [None if share is None else round(100 * share, 1) for share in wait],
    }  # fmt: skip


def machine_row(sample: dict) -> Row:
    """Of a sample."""
    row = [numbers([sample], *path)[0] for path in _MACHINE]
    for gpu in gpus_of(sample):
        row += [known(gpu.get(key)) for key in GPU]
    return row


def gpus_of(sample: dict) -> list[dict]:
    listed = sample.get("gpus")
    return [gpu if isinstance(gpu, dict) else {} for gpu in listed] if isinstance(listed, list) else []


def machine_json(ranges: Ranges, gpus: int, tail: bool = False) -> dict:
    """By range: {seconds, t, user, system, iowait, idle (%), read (MB/s), available (MB), gpus: one entry a device}.

    A device: {util, util_low, util_high (%; left out where a bucket is one second), memory (MB), power (W),
    temperature (degrees Celsius)}.
    """
    return {name: machine_view(rollup, keys, gpus) for name, rollup, keys in ranges.views(tail)}


def machine_view(rollup: Rollup, keys: list[int], gpus: int) -> dict:
    """One range of `machine_json`."""
    names = (*CPU, "read", "available")
    return {
        **_time(rollup, keys),
        **{name: rollup.column("mean", column, keys, 1) for column, name in enumerate(names)},
        "gpus": [_gpu(rollup, keys, len(_MACHINE) + number * len(GPU)) for number in range(gpus)],
    }


def _gpu(rollup: Rollup, keys: list[int], at: int) -> dict:
    one_reading = rollup.width <= 1
    extremes = {} if one_reading else {f"util_{what}": rollup.column(what, at, keys) for what in ("low", "high")}
    return {
        "util": rollup.column("mean", at, keys), **extremes, "memory": rollup.column("high", at + 1, keys),
        "power": rollup.column("mean", at + 2, keys), "temperature": rollup.column("high", at + 3, keys),
    }  # fmt: skip


def _time(rollup: Rollup, keys: list[int]) -> dict:
    return {"seconds": rollup.width, "t": [key * rollup.width for key in keys]}
