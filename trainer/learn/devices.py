"""From the configuration's device names to MXNet contexts, and the environment that MXNet reads at import."""

import os
import re
import resource
from contextlib import contextmanager

from trainer.config import Config
from trainer.errors import ConfigError, DeviceError, TooLargeError

# What MXNet, CUDA, cuDNN and the C++ library say of it.
_SHORT_OF_MEMORY = ("out of memory", "cudamalloc", "alloc_failed", "bad_alloc", "failed to allocate")


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
    """MXNet contexts, in the order of `devices`; DeviceError when one is not there, ConfigError as check_precision."""
    import mxnet as mx

    named = [re.fullmatch(r"(cpu|gpu)\((\d+)\)", device).groups() for device in config.devices]
    gpus = _gpu_count() if any(kind == "gpu" for kind, _ in named) else 0
    missing = [f"gpu({number})" for kind, number in named if kind == "gpu" and int(number) >= gpus]
    if missing:
        raise DeviceError(
            f"devices must be GPUs of this machine, which has {gpus} that MXNet {mx.__version__} can use, "
            f"got {', '.join(missing)}"
        )
    check_precision(config)
    return [mx.Context(kind, int(number)) for kind, number in named]


def check_precision(config: Config) -> None:
    """ConfigError when the processor is to compute in bfloat16 and cannot.

    oneDNN, in which MXNet computes there, has bfloat16 for AVX-512 alone; asked, it says so at once.
    """
    import mxnet as mx
    from mxnet.contrib.amp.amp import bfloat16

    if config.precision != "bfloat16" or config.devices[0].startswith("gpu"):
        return
    image, weights = (mx.nd.amp_cast(mx.nd.ones(shape), dtype=bfloat16) for shape in ((1, 16, 8, 8), (16, 16, 3, 3)))
    try:
        mx.nd.Convolution(image, weights, kernel=(3, 3), num_filter=16, no_bias=True).wait_to_read()
    except mx.MXNetError as error:
        raise ConfigError(
            'precision must be "float32" on this machine, whose processor cannot compute in "bfloat16" '
            '(MXNet needs AVX-512 for it), got "bfloat16"'
        ) from error


def memory_of_devices(config: Config) -> tuple[float, float | None]:
    """MB in use on the device with the least free, and MB that it has; on a CPU this process's most so far, and None.

    What other processes use counts: it is not free either.
    """
    import mxnet as mx

    if config.devices[0].startswith("cpu"):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, None
    readings = [mx.context.gpu_memory_info(context.device_id) for context in contexts(config)]
    limit = min(total for _, total in readings)
    return (limit - min(free for free, _ in readings)) / 1e6, limit / 1e6


@contextmanager
def telling_short_memory():
    """TooLargeError in place of MXNet's own error when a device has no memory left."""
    import mxnet as mx

    try:
        yield
    except mx.MXNetError as error:
        if any(words in str(error).lower() for words in _SHORT_OF_MEMORY):
            raise TooLargeError(str(error).strip().splitlines()[-1]) from error
        raise


def _gpu_count() -> int:
    import mxnet as mx

    try:
        return mx.context.num_gpus()
    except mx.MXNetError:  # a CUDA build without a driver raises instead of counting 0
        return 0
