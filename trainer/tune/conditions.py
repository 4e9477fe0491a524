"""Whether this is a good moment to measure: another process at work, or a volume read for the first time, spoil it."""

import time
from pathlib import Path

import psutil

from trainer.tune.disk import is_cold

_LOOK_SECONDS = 1.0
# Of all processors together.
_BUSY_SHARE = 0.15


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
