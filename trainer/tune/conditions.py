"""Whether this is a good moment to measure: another process at work, or a volume read for the first time, spoil it."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil

from trainer import volume
from trainer.errors import DataError
from trainer.tune.disk import is_cold

_LOOK_SECONDS = 1.0
# Of all processors together.
_BUSY_SHARE = 0.15
# The warm-up says how far it is every 5 s, and starts again by itself 5 s after an error.
_WARM_UP_LOOK_SECONDS = 1.0
_WARM_UP_SAY_SECONDS = 30.0
_WARM_UP_STANDSTILL_SECONDS = 60.0


def wait_until_warm(
    data_train: Path, say: Callable[[str], None], stop, standstill_seconds: float = _WARM_UP_STANDSTILL_SECONDS
) -> None:
    """Returns once the data's volume has been read for the first time, or somebody asks to stop.

    DataError when the reading stands still: what is measured on such a volume is wrong, and a run keeps it.
    """
    read_bytes, moved, said = None, 0.0, -_WARM_UP_SAY_SECONDS
    while (found := volume.warm_up(data_train)) and not stop:
        now = time.monotonic()
        if found.get("bytes_read") != read_bytes:
            read_bytes, moved = found.get("bytes_read"), now
        if now - moved > standstill_seconds:
            raise DataError(
                f"{data_train}: its volume must be read once before anything is measured on it; that has stood still "
                f"for {standstill_seconds:g} s, got {volume.words(found)}; see journalctl -u data-volume-warm-up"
            )
        if now - said >= _WARM_UP_SAY_SECONDS:
            said = now
            say(f"waiting until the volume of {data_train} is warm: {volume.words(found)}")
        time.sleep(_WARM_UP_LOOK_SECONDS)


def warnings(data_train: Path) -> dict[str, str]:
    """`busy` and `cold`: what is wrong, in words. DataError."""
    found = {}
    busy = _busy_share()
    if busy > _BUSY_SHARE:
        found["busy"] = (
            f"the machine was busy: other processes used {busy:.0%} of its processors; tune again when it is idle"
        )
    if is_cold(data_train):
        found["cold"] = (
            f"the volume of {data_train} is cold: records came much faster when they were read again; read it once "
            f"(cat {data_train} > /dev/null) and tune again"
        )
    return found


def _busy_share() -> float:
    """By the system's clock of all processors, before this process does anything."""
    before = psutil.cpu_times()
    time.sleep(_LOOK_SECONDS)
    after = psutil.cpu_times()
    spent = {state: getattr(after, state) - getattr(before, state) for state in after._fields}
    guest = spent.get("guest", 0.0) + spent.get("guest_nice", 0.0)  # counted in user and nice already
    total = sum(spent.values()) - guest
    idle = spent["idle"] + spent.get("iowait", 0.0)
    return max(0.0, 1 - idle / total) if total > 0 else 0.0
