"""This host as the search sees it: devices, memory, processors, and where the configuration begins."""

import math
import os
from dataclasses import replace
from pathlib import Path

from trainer.config import Config
from trainer.data.memory import available_bytes
from trainer.tune.host_prober import HostProber
from trainer.tune.known import Host

# Of what a CPU's machine has free: the rest is for the system and for what grows later.
_CPU_MEMORY_SHARE = 0.5


def this_host(config: Config, prober: HostProber, reserve: float, examples: int) -> Host:
    """reserve: the share of the devices' memory to leave free. examples: of an epoch. DeviceError: a GPU is missing."""
    most = examples // len(config.devices) * len(config.devices)
    return replace(beginning(config), memory_mb=_memory_mb(config, prober) * (1 - reserve), most_batch=most)


def beginning(config: Config) -> Host:
    """The same without its memory: for a batch that is not to be changed."""
    return Host(
        devices=len(config.devices), vcpus=most_threads(config), memory_mb=math.inf, batch=config.batch_size,
        threads=config.decode_threads, precision=config.precision,
    )  # fmt: skip


def most_threads(config: Config) -> int:
    """MXNet's own iterator decodes on half of the processors at most."""
    processors = len(os.sched_getaffinity(0))
    return max(1, processors // 2) if config.input_engine == "mxnet" else processors


def _memory_mb(config: Config, prober: HostProber) -> float:
    """Of the device with the least; of a CPU's machine the budget."""
    if config.devices[0].startswith("cpu"):
        return _CPU_MEMORY_SHARE * available_bytes() / 1e6
    scratch = config.model_copy(update={"run_directory": Path(prober.scratch) / "run"})
    return prober.ask("memory", scratch)["memory_limit_mb"]
