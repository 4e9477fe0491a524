"""Scripted samples of runs that never ran: a model of a host whose time is lost in ways that a test chooses."""

import random
from dataclasses import dataclass, field


@dataclass
class Host:
    """A run of `seconds` samples. Each share is a part of the time that is lost that way."""

    gpus: int = 16
    roof: float = 792.0
    batch: int = 1408
    threads: int = 32
    cores: int = 64
    seconds: int = 60
    data_wait: float = 0.02
    sync: float = 0.0
    saving: float = 0.0
    slowdown: float = 0.0  # of the devices themselves
    idle: float = 40.0
    iowait: float = 0.2
    disk_util: float = 20.0
    memory: float = 0.95
    noise: float = 0.0
    seed: int = 0
    told_roof: bool = True
    more: dict = field(default_factory=dict)

    @property
    def speed(self) -> float:
        return self.roof * (1 - self.slowdown) * (1 - self.data_wait - self.sync - self.saving)


def samples(host: Host) -> list[dict]:
    """One sample a second."""
    chance = random.Random(host.seed)

    def noisy(value: float, most: float = 1e9) -> float:
        return min(max(value * (1 + chance.gauss(0, host.noise)), 0.0), most)

    result, steps = [], 1000.0
    lost = host.data_wait + host.sync + host.saving
    for second in range(host.seconds):
        speed = noisy(host.speed)
        steps += speed / host.batch
        entry = {
            "t": 1_700_000_000 + second, "images_per_second": speed, "data_wait_share": noisy(host.data_wait, 1),
            "step_seconds": host.batch / max(speed, 1e-9), "steps": int(steps), "batch_size": host.batch,
            "decode_threads": host.threads,
            "cpu": {
                "idle": noisy(host.idle, 100), "iowait": noisy(host.iowait, 100),
                "user": noisy(max(100 - host.idle - host.iowait, 0) * 0.9, 100), "cores": host.cores,
            },
            "disk": {"read_mb_s": noisy(host.speed * 0.117), "util": noisy(host.disk_util, 100)},
            "gpus": [gpu(host, lost, chance, noisy) for _ in range(host.gpus)],
        }  # fmt: skip
        entry |= {"roof_images_per_second": host.roof} if host.told_roof else {}
        entry |= {"sync_wait_share": noisy(host.sync, 1)} if host.sync else {}
        entry |= {"checkpoint_share": noisy(host.saving, 1)} if host.saving else {}
        result.append(entry | host.more)
    return result


def gpu(host: Host, lost: float, chance: random.Random, noisy) -> dict:
    """Busy or idle for the whole second when data are late; otherwise busy but for the waits for others."""
    busy = chance.random() >= host.data_wait if host.data_wait > 0.05 else True
    util = noisy(98 * (1 - host.sync), 100) if busy else chance.choice((0, 0, 3, 11))
    return {
        "util": util, "mem_used_mb": 11439 * host.memory, "mem_total_mb": 11439,
        "power_w": noisy(50 + 90 * util / 100 * (1 - host.slowdown)), "sm_clock_mhz": 875, "temperature_c": noisy(68),
        "throttle": None,
    }  # fmt: skip


def change(rows: list[dict], alter, begin: int = 0) -> list[dict]:
    """`alter(number of the sample, sample)` on each from `begin` on."""
    for number, row in enumerate(rows[begin:], begin):
        alter(number, row)
    return rows


def without(rows: list[dict], *keys: str) -> list[dict]:
    return [{key: value for key, value in row.items() if key not in keys} for row in rows]


def of_gpus(**fields):
    """An `alter` for `change`: values, or functions (number of the sample, place of the GPU) -> value."""

    def alter(number: int, row: dict) -> None:
        for place, entry in enumerate(row["gpus"]):
            entry |= {key: value(number, place) if callable(value) else value for key, value in fields.items()}

    return alter


def of_run(**fields):
    """An `alter` for `change`: values, or functions (number of the sample) -> value."""

    def alter(number: int, row: dict) -> None:
        row |= {key: value(number) if callable(value) else value for key, value in fields.items()}

    return alter


def starved(**settings) -> list[dict]:
    """The article's case: four decode threads for sixteen GPUs, on 64 cores."""
    return samples(Host(**{"data_wait": 0.49, "threads": 4, "idle": 80.5, "iowait": 0.0, "disk_util": 12} | settings))


def out_of_cpu(**settings) -> list[dict]:
    return samples(Host(**{"data_wait": 0.35, "threads": 64, "idle": 2, "iowait": 0.3} | settings))


def slow_disk(**settings) -> list[dict]:
    return samples(Host(**{"data_wait": 0.5, "idle": 50, "iowait": 38, "disk_util": 99} | settings))


def healthy(**settings) -> list[dict]:
    return samples(Host(**settings))


def small_batch(**settings) -> list[dict]:
    return samples(Host(**{"memory": 0.13, "slowdown": 0.24} | settings | {"batch": 8 * settings.get("gpus", 16)}))


def exchanging(**settings) -> list[dict]:
    return samples(Host(**{"sync": 0.3} | settings))


def saving(**settings) -> list[dict]:
    return samples(Host(**{"saving": 0.25} | settings))


def swapping(**settings) -> list[dict]:
    memory = {"host_memory": {"available_mb": 180, "swap_mb_s": 45.0}}
    return samples(Host(**{"data_wait": 0.3, "idle": 50, "iowait": 20, "disk_util": 85, "more": memory} | settings))


def one_slow(**settings) -> list[dict]:
    rows = samples(Host(**{"slowdown": 0.4} | settings))
    for row in rows:
        for place, entry in enumerate(row["gpus"]):
            slow = place == len(row["gpus"]) // 2
            entry |= {"sm_clock_mhz": 520, "util": 99} if slow else {"util": 0.6 * entry["util"]}
    return rows


def hot(**settings) -> list[dict]:
    rows = samples(Host(**{"slowdown": 0.2} | settings))
    for entry in (entry for row in rows for entry in row["gpus"]):
        entry |= {"sm_clock_mhz": 700, "temperature_c": 91, "throttle": "thermal"}
    return rows


def lost(**settings) -> list[dict]:
    rows = healthy(**settings)
    for row in rows:
        count = len(row["gpus"])
        row["gpus_expected"] = count
        row["images_per_second"] *= (count - 1) / count
        del row["gpus"][count // 2]
    return rows


def hanging(**settings) -> list[dict]:
    """Utilisation of 100 %, and no steps in the last two thirds of the time."""
    rows = healthy(**settings)
    last = rows[len(rows) // 3]["steps"]
    for row in rows[len(rows) // 3 :]:
        row |= {"steps": last, "images_per_second": 0.0}
        for entry in row["gpus"]:
            entry["util"] = 100
    return rows


def bare(**settings) -> list[dict]:
    """Only how fast it is."""
    return [{key: row[key] for key in ("t", "images_per_second")} for row in healthy(**settings)]


CASES = {
    "input_bound_decode": starved, "input_bound_cpu": out_of_cpu, "input_bound_disk": slow_disk,
    "device_bound": healthy, "batch_too_small": small_batch, "sync_bound": exchanging, "checkpoint_bound": saving,
    "memory_pressure": swapping, "one_device_slow": one_slow, "thermal_throttle": hot, "device_lost": lost,
    "hung": hanging, "unknown": bare,
}  # fmt: skip
