"""A run's samples in a few numbers: what each cause of lost time is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from trainer.observe.diagnose.gpus import MEASURES, Gpus, mean_of, read_gpus
from trainer.observe.diagnose.window import Window, seconds_of
from trainer.observe.history import is_number
from trainer.observe.series import numbers

# What a full sample holds, and how much each part says about why a run is slow.
_WEIGHTS = {
    ("images_per_second",): 3, ("data_wait_share",): 3, ("steps",): 2, ("step_seconds",): 1, ("batch_size",): 1,
    ("decode_threads",): 2, ("cpu", "idle"): 2, ("cpu", "iowait"): 2, ("cpu", "user"): 1, ("cpu", "cores"): 1,
    ("disk", "read_mb_s"): 1, ("disk", "util"): 1, ("t",): 1,
}  # fmt: skip
_GPU_WEIGHTS = {
    "util": 3, "mem_used_mb": 1, "mem_total_mb": 1, "power_w": 1, "sm_clock_mhz": 1, "temperature_c": 1
}  # fmt: skip
_ROOF_WEIGHT = 2
# Of a value that half of the samples lack, say so.
_MISSING_SHARE = 0.5


# A speed this many times the usual one is a fault of measuring: a report right after another.
OUTLIER = 2.0


@dataclass(frozen=True)
class Picture:
    """Means over the window. Shares 0-1, but CPU and disk in %; None: unknown."""

    samples: int
    seconds: float
    images_per_second: float | None
    roof: float | None
    data_wait: float | None
    sync_wait: float | None
    checkpoint: float | None
    idle_pauses: float
    """The part of the time in which nothing is trained, and the devices are idle and do not wait for data."""
    step_seconds: float | None
    batch_size: float | None
    decode_threads: float | None
    decode_threads_asked: float | None
    cores: float | None
    idle: float | None
    iowait: float | None
    busy: float | None
    disk_util: float | None
    read_mb_s: float | None
    cold: bool
    available_mb: float | None
    swap_mb_s: float | None
    gpus: Gpus
    coverage: float
    """How much of what a full sample holds is there, 0-1."""
    missing: tuple[str, ...]

    @property
    def attained(self) -> float | None:
        """The part of the roof, 0-1."""
        if self.images_per_second is None or not self.roof:
            return None
        return min(self.images_per_second / self.roof, 1.0)


def picture(seen: Window) -> Picture:
    """The numbers of the window's steady part."""
    samples = seen.steady
    idle, iowait, user = (_percent(samples, "cpu", key) for key in ("idle", "iowait", "user"))
    speed = _speed(samples)
    gpus = read_gpus(samples, seen.all, moving=not seen.standstill and speed != 0)
    coverage, missing = _coverage(samples, gpus)
    return Picture(
        samples=len(samples) + len(seen.standstill),
        seconds=seconds_of(samples),
        images_per_second=speed,
        roof=_latest(seen.all, "roof_images_per_second"),
        data_wait=_share(samples, "data_wait_share"),
        sync_wait=_share(samples, "sync_wait_share"),
        checkpoint=_share(samples, "checkpoint_share"),
        idle_pauses=seen.idle_share,
        step_seconds=_mean(samples, "step_seconds"),
        batch_size=_latest(samples, "batch_size"),
        decode_threads=_latest(samples, "decode_threads"),
        decode_threads_asked=_latest(samples, "decode_threads_asked"),
        cores=_latest(samples, "cpu", "cores"),
        idle=idle,
        iowait=iowait,
        busy=_busy(idle, iowait, user),
        disk_util=_percent(samples, "disk", "util"),
        read_mb_s=_mean(samples, "disk", "read_mb_s"),
        cold=sum(sample.get("cold_volume") is True for sample in samples) > len(samples) / 2,
        available_mb=_mean(samples, "host_memory", "available_mb"),
        swap_mb_s=_mean(samples, "host_memory", "swap_mb_s"),
        gpus=gpus,
        coverage=coverage,
        missing=missing,
    )


def _speed(samples: Sequence[dict]) -> float | None:
    """Images a second as reported; when nobody does, by the count of steps or by the time of one."""
    reported = [speed for speed in numbers(samples, "images_per_second") if speed is not None]
    if reported:
        usual = median([speed for speed in reported if speed > 0] or [0.0])
        return fmean(min(max(speed, 0.0), OUTLIER * usual) for speed in reported)
    batch = _latest(samples, "batch_size")
    steps = [(row, count) for row, count in enumerate(numbers(samples, "steps")) if count is not None]
    if batch and len(steps) > 1:
        seconds = seconds_of(samples[steps[0][0] : steps[-1][0] + 1])
        if seconds > 0 and steps[-1][1] > steps[0][1]:
            return batch * (steps[-1][1] - steps[0][1]) / seconds
    step_seconds = _mean(samples, "step_seconds")
    return batch / step_seconds if batch and step_seconds else None


def _busy(idle: float | None, iowait: float | None, user: float | None) -> float | None:
    """Time of the cores in use, in %; without `idle`, user time is the least that it can be."""
    if idle is None:
        return user
    return max(0.0, 100 - idle - (iowait or 0.0))


def _mean(samples: Sequence[dict], *path: str) -> float | None:
    return mean_of(numbers(samples, *path))


def _percent(samples: Sequence[dict], *path: str) -> float | None:
    return mean_of([None if value is None else min(max(value, 0.0), 100.0) for value in numbers(samples, *path)])


def _share(samples: Sequence[dict], key: str) -> float | None:
    return mean_of([None if value is None else min(max(value, 0.0), 1.0) for value in numbers(samples, key)])


def _latest(samples: Sequence[dict], *path: str) -> float | None:
    """The last value above 0: settings do not change within a window."""
    return next((value for value in reversed(numbers(samples, *path)) if value is not None and value > 0), None)


def _coverage(samples: Sequence[dict], gpus: Gpus) -> tuple[float, tuple[str, ...]]:
    """The weighed part of a full sample that is there, and the names of what is not."""
    count = max(len(samples), 1)
    there = {
        ".".join(path): (sum(value is not None for value in numbers(samples, *path)) / count, weight)
        for path, weight in _WEIGHTS.items()
    }
    there |= {f"gpus.{key}": (_gpu_share(samples, gpus, key), weight) for key, weight in _GPU_WEIGHTS.items()}
    there["roof_images_per_second"] = (float(_latest(samples, "roof_images_per_second") is not None), _ROOF_WEIGHT)
    total = sum(weight for _, weight in there.values())
    missing = tuple(name for name, (share, _) in there.items() if share < _MISSING_SHARE)
    return sum(share * weight for share, weight in there.values()) / total, _shortened(missing)


def _gpu_share(samples: Sequence[dict], gpus: Gpus, key: str) -> float:
    """Of all readings of living devices, how many have it; a host that says it has no GPUs lacks none."""
    lists = [sample.get("gpus") for sample in samples]
    if gpus.known and not gpus.expected and not any(lists):
        return 1.0
    entries = [
        [is_number(entry.get(key)) for entry in listed if isinstance(entry, dict) and _lives(entry)]
        for listed in lists
        if isinstance(listed, list)
    ]
    shares = [sum(known) / len(known) for known in entries if known]
    return sum(shares) / max(len(samples), 1)


def _lives(entry: dict) -> bool:
    return any(is_number(entry.get(key)) for key in MEASURES)


def _shortened(missing: tuple[str, ...]) -> tuple[str, ...]:
    """One word for all of a group that is missing as a whole."""
    for group in ("cpu", "disk", "gpus"):
        members = [name for name in missing if name.startswith(f"{group}.")]
        whole = len(_GPU_WEIGHTS) if group == "gpus" else sum(path[0] == group for path in _WEIGHTS)
        if len(members) == whole:
            at = missing.index(members[0])
            missing = (*missing[:at], group, *(name for name in missing[at:] if name not in members))
    return missing
