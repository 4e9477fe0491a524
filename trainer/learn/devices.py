"""From the configuration's device names to MXNet contexts, and the environment that MXNet reads at import."""

import os
import re

from trainer.config import Config
from trainer.errors import DeviceError


def set_environment(config: Config) -> None:
    """Must run before MXNet is imported: it and OpenMP read these variables once.

    Left alone, MXNet computes on half of the processors. On an idle machine all of them are up to 1.6 times faster, but
    a team of threads waits for its slowest member at every operation: with one other busy process on two cores, two
    threads were 4 times slower than one with OpenMP's usual spinning, 1.6 times with the short spin set here.
    """
    if config.compute_threads is not None:
        os.environ["MXNET_OMP_MAX_THREADS"] = str(config.compute_threads)
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


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
