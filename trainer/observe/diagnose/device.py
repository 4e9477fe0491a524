"""Devices that are gone, hot, slower than the others, short of work, or waiting for each other."""

import math
from statistics import median

from trainer.observe.diagnose.gpus import Gpu, Gpus, mean_of
from trainer.observe.diagnose.loss import LEAST_SHARE, Loss, ramp
from trainer.observe.diagnose.picture import Picture
from trainer.observe.diagnose.slow import slow_devices

# A device that is held down in a fifth of its readings trains slower; a peak now and then costs nothing.
THERMAL_READINGS = 0.2
# Data-centre GPUs lower their clocks from about here (K80: 88, T4, V100: 83-85 degrees Celsius).
HOT_CELSIUS = 84.0
# Below this part of its own or the others' clock a hot device is being held down.
HOT_CLOCK = 0.93
# A device's own best clock is that of the fastest third of its readings: a single one is noise.
FASTEST = 1 / 3
# What heat costs when nothing shows how much: a clock that is held down is rarely less than this below.
THERMAL_GUESS = 0.1
# Images of one device's share of a batch at which it reaches half of its speed. ResNet-50 on a K80 trains 1.26 times
# as fast at 32 as at 8 and 1.05 times at 64 as at 32 (MXNet's table): rate ~ batch / (batch + 3) fits both.
HALF_SPEED_BATCH = 3.0
SMALL_BATCH = 16
# Up to this use of its memory a device could take twice the work or nearly so.
FREE_MEMORY = 0.6


def lost_devices(seen: Picture) -> list[Loss]:
    gpus = seen.gpus
    if not gpus.lost:
        return []
    text = f"{gpus.lost} of {gpus.expected} GPUs {'is' if gpus.lost == 1 else 'are'} gone or no longer answer"
    advice = (
        "Replace the machine and continue there from the checkpoint (`train` again): a GPU that fell off the bus comes "
        "back after a restart at best. `dmesg | grep -i xid` names the fault."
    )
    return [Loss("device_lost", gpus.lost / gpus.expected, 0.95, (text,), advice)]


def hot_devices(seen: Picture) -> tuple[list[Loss], tuple[str, ...]]:
    """Devices that heat holds down, and their names."""
    told = [gpu for gpu in seen.gpus.each if gpu.thermal >= THERMAL_READINGS]
    found = told or [gpu for gpu in seen.gpus.each if _hot_and_slow(gpu, seen.gpus)]
    if not found:
        return [], ()
    names = tuple(gpu.name for gpu in found)
    share = max((slowdown for gpu in found if (slowdown := _slowdown(gpu, seen.gpus)) is not None), default=None)
    open_ended = share is None or share < LEAST_SHARE / 2
    share = THERMAL_GUESS if open_ended else share
    strength = (0.95 if told else 0.6) * (0.85 if open_ended else 1)
    text = _hot_text(found, seen.gpus)
    return [Loss("thermal_throttle", share, strength, (text,), _HEAT_ADVICE, open=open_ended)], names


_HEAT_ADVICE = (
    "Cool the GPUs: look at fans and air flow (nvidia-smi -q -d TEMPERATURE,PERFORMANCE); on a rented machine, replace "
    "it. Until then the slowest GPU sets the pace of all."
)


def heat_by_elimination(seen: Picture, share: float) -> list[Loss]:
    """Hot devices of which nobody says whether heat holds them down, when nothing else explains what they lose."""
    found = [gpu for gpu in seen.gpus.each if not gpu.throttle_known and (gpu.mean("temperature") or 0) >= HOT_CELSIUS]
    if not found:
        return []
    text = f"nothing else explains {100 * share:.0f} % of the roof, and heat may: {_hot_text(found, seen.gpus)}"
    return [Loss("thermal_throttle", share, 0.45, (text,), _HEAT_ADVICE)]


def _hot_and_slow(gpu: Gpu, gpus: Gpus) -> bool:
    slowdown = _slowdown(gpu, gpus)
    temperature = gpu.mean("temperature")
    return temperature is not None and temperature >= HOT_CELSIUS and (slowdown or 0) >= 1 - HOT_CLOCK


def _slowdown(gpu: Gpu, gpus: Gpus) -> float | None:
    """How far its clock is below its own best and the cool devices', 0-1; None when heat spared no known clock."""
    own = sorted(gpu.working_clocks)
    cool = [mean_of(other.working_clocks) for other in gpus.each if other is not gpu and _is_cool(other)]
    references = [median(cool)] if cool and None not in cool else []
    if gpu.thermal <= 1 - FASTEST:  # else the best of its own is held down, too
        references += [median(own[-math.ceil(FASTEST * len(own)) :])] if own else []
    return max(0.0, 1 - mean_of(own) / max(references)) if own and references else None


def _is_cool(gpu: Gpu) -> bool:
    return gpu.thermal < THERMAL_READINGS and (gpu.mean("temperature") or 0) < HOT_CELSIUS


def _hot_text(found: list[Gpu], gpus: Gpus) -> str:
    who = "all GPUs" if len(found) == len(gpus.each) > 1 else f"GPU {', '.join(gpu.name for gpu in found)}"
    told = max(gpu.thermal for gpu in found)
    parts = [f"clocks held down by heat in {100 * told:.0f} % of the readings"] if told else []
    temperatures = [gpu.mean("temperature") for gpu in found if gpu.mean("temperature") is not None]
    clocks = [mean_of(gpu.working_clocks) for gpu in found if gpu.working_clocks]
    parts += [f"{max(temperatures):.0f} degrees Celsius"] if temperatures else []
    parts += [f"{min(clocks):,.0f} MHz"] if clocks else []
    return f"{who}: {', '.join(parts)}"


def one_slow_device(seen: Picture, hot: tuple[str, ...]) -> list[Loss]:
    slow = slow_devices(seen.gpus, but=hot)
    if slow is None:
        return []
    advice = (
        f"All wait for GPU {', '.join(slow.names)}: look at its clocks, power and errors (nvidia-smi -q -i "
        f"{slow.names[0]}) and at other processes on it; train without it, or replace the machine."
    )
    return [Loss("one_device_slow", slow.share, slow.strength, (slow.evidence,), advice)]


def waiting_for_each_other(seen: Picture, explained: float) -> list[Loss]:
    """By what training measures; `explained`: the part of it that a slow or hot device is to blame for."""
    share = max(0.0, (seen.sync_wait or 0.0) - explained)
    if share < LEAST_SHARE:
        return []
    text = f"the devices wait for each other {100 * seen.sync_wait:.0f} % of the time"
    return [Loss("sync_bound", share, 0.5 + 0.45 * ramp(share, 0.05, 0.15), (text,), _SYNC_ADVICE)]


_SYNC_ADVICE = (
    "Exchange gradients less or faster: kvstore = \"device\" or \"nccl\", a larger batch (fewer exchanges an epoch), "
    "and see that the GPUs reach each other directly (nvidia-smi topo -m)."
)


def batch_per_device(seen: Picture) -> float | None:
    devices = seen.gpus.expected or len(seen.gpus.each)
    return seen.batch_size / devices if seen.batch_size and devices else None


def small_batch(seen: Picture) -> list[Loss]:
    """A batch that leaves devices short of work. By itself it shows what MXNet's table would lose; the roof knows."""
    batch, memory = batch_per_device(seen), seen.gpus.memory
    if memory is not None and memory > FREE_MEMORY or (batch is None and memory is None):
        return []
    small = batch is not None and batch <= SMALL_BATCH
    if not small and memory is None:
        return []
    share = _gain(batch, memory)
    strength = 0.4 + 0.25 * small + 0.25 * (memory is not None)
    lines = [f"each device gets {batch:g} images a step"] if batch is not None else []
    lines += [f"{100 * memory:.0f} % of the devices' memory is in use"] if memory is not None else []
    advice = (
        "Raise batch_size (the learning rate follows it): `python -m trainer tune` finds the largest that fits and the "
        "smallest that is as fast."
    )
    return [Loss("batch_too_small", share, strength, ("; ".join(lines),), advice, open=True)]


def _gain(batch: float | None, memory: float | None) -> float:
    """The part of the speed that a full device would add, by the table."""
    if batch is None:
        return 0.0
    largest = max(batch / max(memory, 0.01), batch) if memory is not None else 8.0 * SMALL_BATCH
    return max(0.0, 1 - batch / (batch + HALF_SPEED_BATCH) * (largest + HALF_SPEED_BATCH) / largest)
