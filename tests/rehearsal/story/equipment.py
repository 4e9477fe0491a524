"""What the rehearsal's machines have beside a test host: GPUs that are played, and a small disk for the run.

A layer above the image. NVML answers for two M60s, and MXNet's GPUs are its processors: gpu(1) is cpu(1).
"""

import shutil
from pathlib import Path

from fakes.nvml import HOST_SCRIPT, FakeNvml

GPUS = 2
M60 = {
    "name": "Tesla M60", "major": 5, "minor": 2, "total": 7_613, "used": 3_100, "util": 88, "power": 112_000,
    "clock": 1_177,
}  # fmt: skip
MXNET = "opt/mxnet/lib/python3.11/site-packages/mxnet/context.py"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# GPUs of the kind cpu (1), as many as NVML tells, with an M60's memory in bytes.
PLAYED = f"""

Context.devstr2type["gpu"] = 1
def num_gpus(): return {GPUS}
def gpu_memory_info(device_id=0): return 7 << 30, 7613 << 20
"""
# The run's place is small, so that it can be full.
DISK = "tmpfs /var/lib/trainer tmpfs size=64m,mode=0755 0 0\n"


def layer(folder: Path, below: list[Path]) -> Path:
    """To be booted above the layers below, one of which has MXNet."""
    _play_gpus(folder)
    _let_mxnet_use_them(folder, below)
    (folder / "etc/fstab").write_text(DISK)
    return folder


def _play_gpus(folder: Path) -> None:
    libraries, script = folder / LIBRARIES, folder / HOST_SCRIPT
    libraries.mkdir(parents=True)
    script.parent.mkdir(parents=True)
    nvml = FakeNvml(libraries, script, GPUS)
    for device in range(GPUS):
        nvml.change(device, **M60)


def _let_mxnet_use_them(folder: Path, below: list[Path]) -> None:
    [original] = [path / MXNET for path in below if (path / MXNET).exists()]
    own = folder / MXNET
    own.parent.mkdir(parents=True)
    shutil.copy(original, own)
    with own.open("a") as file:
        file.write(PLAYED)
