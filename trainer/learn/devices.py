"""From the configuration's device names to MXNet contexts, and the environment that MXNet reads at import."""

import os
import re

import psutil

from trainer.config import Config
from trainer.errors import DeviceError


def set_environment(config: Config) -> None:
    """Must run before MXNet is imported: it reads these variables once.

    MXNet takes half of the logical processors, for it supposes hyper-threading; the physical cores, shared out among
    the CPU devices, are what it means. A spinning OpenMP team slows fourfold on a machine that does something else as
    well, hence the short spin.
    """
    cpus = sum(device.startswith("cpu") for device in config.devices)
    if cpus:
        os.environ.setdefault("MXNET_OMP_MAX_THREADS", str(max(1, _physical_cores() // cpus)))
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


def _physical_cores() -> int:
    available = len(os.sched_getaffinity(0))
    return min(available, psutil.cpu_count(logical=False) or available)


def contexts(config: Config) -> list:
    """MXNet contexts, in the order of `devices`; DeviceError when a GPU is not there."""
    import mxnet as mx

    named = [re.fullmatch(r"(cpu|gpu)\((\d+)\)", device).groups() for device in config.devices]
    gpus = _gpu_count() if any(kind == "gpu" for kind, _ in named) else 0
    missing = [f"gpu({number})" for kind, number in named if kind == "gpu" and int(number) >= gpus]
    if missing:
        raise DeviceError(
            f"devices must be GPUs of this machine, which has {gpus} that MXNet {mx.__version__} can use, "
            f"got {', '.join(missing)}"
        )
    return [mx.Context(kind, int(number)) for kind, number in named]


def _gpu_count() -> int:
    import mxnet as mx

    try:
        return mx.context.num_gpus()
    except mx.MXNetError:  # a CUDA build without a driver raises instead of counting 0
        return 0
