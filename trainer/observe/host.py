"""Load of the whole machine, from two readings of the system's counters. MB are 10^6 bytes; shares are 0-100."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

MB = 1e6
_CPU_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class Reading:
    """The counters at one moment. All but `available_bytes` only ever grow."""

    seconds: float
    cpu_seconds: dict[str, float]
    available_bytes: int
    swapped_bytes: int
    disks: dict[str, tuple[int, int]]
    """Of each whole disk: bytes read, milliseconds busy."""


def read() -> Reading:
    """The counters now. Raises what psutil raises when the system does not answer."""
    cpu = _cpu_times()
    swap = psutil.swap_memory()
    return Reading(
        seconds=time.monotonic(),
        cpu_seconds={state: sum(getattr(times, state, 0.0) for times in cpu) for state in _CPU_STATES},
        available_bytes=psutil.virtual_memory().available,
        swapped_bytes=swap.sin + swap.sout,
        disks=_whole_disks(),
    )


def _cpu_times() -> list:
    """Of the processors that this process (and the trainer that started it) may use: others are no help to it."""
    allowed = os.sched_getaffinity(0)
    if len(allowed) == psutil.cpu_count():
        return [psutil.cpu_times()]
    return [times for number, times in enumerate(psutil.cpu_times(percpu=True)) if number in allowed]


def sample(before: Reading, after: Reading) -> dict:
    """What the machine did between two readings, as samples.jsonl holds it.

    cpu: `idle`, `iowait`, `user` (nice included) and `system` (interrupts included), shares of the time of all cores
    together that the run may use; what is missing to 100 is time that the hypervisor gave to others. `cores`: these,
    logical ones.
    disk: `read_mb_s` of all disks together, `util`: the share of time that the busiest disk was busy.
    """
    seconds = max(after.seconds - before.seconds, 1e-3)
    return {
        "cpu": {**_cpu_shares(before, after), "cores": len(os.sched_getaffinity(0))},
        "host_memory": {
            "available_mb": round(after.available_bytes / MB),
            "swap_mb_s": _rate(before.swapped_bytes, after.swapped_bytes, seconds) / MB,
        },
        "disk": _disk(before, after, seconds),
    }


def _cpu_shares(before: Reading, after: Reading) -> dict[str, float]:
    # The kernel lets iowait and idle run backwards by a tick now and then: negative time counts as none.
    spent = {state: max(after.cpu_seconds[state] - before.cpu_seconds[state], 0.0) for state in _CPU_STATES}
    total = sum(spent.values()) or 1.0
    return {
        "idle": round(100 * spent["idle"] / total, 1),
        "iowait": round(100 * spent["iowait"] / total, 1),
        "user": round(100 * (spent["user"] + spent["nice"]) / total, 1),
        "system": round(100 * (spent["system"] + spent["irq"] + spent["softirq"]) / total, 1),
    }


def _disk(before: Reading, after: Reading, seconds: float) -> dict[str, float]:
    pairs = [(before.disks[name], counters) for name, counters in after.disks.items() if name in before.disks]
    read_bytes_s = sum(_rate(old[0], new[0], seconds) for old, new in pairs)
    busy_ms_s = max((_rate(old[1], new[1], seconds) for old, new in pairs), default=0.0)
    return {"read_mb_s": round(read_bytes_s / MB, 2), "util": round(min(busy_ms_s / 10, 100.0), 1)}


def _rate(old: float, new: float, seconds: float) -> float:
    return max(new - old, 0) / seconds


def _whole_disks() -> dict[str, tuple[int, int]]:
    """Disks with a device of their own: partitions, loop and stacked devices would count the same bytes again."""
    counters = psutil.disk_io_counters(perdisk=True) or {}
    return {
        name: (disk.read_bytes, getattr(disk, "busy_time", 0))
        for name, disk in counters.items()
        if Path("/sys/block", name, "device").exists()
    }
