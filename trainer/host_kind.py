"""What kind of machine this is: speeds measured on one kind say nothing about another."""

import os
import platform
from pathlib import Path

_DMI = Path("/sys/class/dmi/id")
_GPUS = Path("/proc/driver/nvidia/gpus")


def host_kind() -> str:
    """The instance type where the machine says it (Amazon's do), else processors and GPUs by name and number."""
    if _read(_DMI / "sys_vendor").startswith("Amazon"):
        return _read(_DMI / "product_name")
    gpus = sorted(_gpu_name(path) for path in _GPUS.glob("*/information"))
    return f"{len(os.sched_getaffinity(0))} x {_processor()}" + (f", {len(gpus)} x {gpus[0]}" if gpus else "")


def _processor() -> str:
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _gpu_name(path: Path) -> str:
    lines = [line for line in _read(path).splitlines() if line.startswith("Model:")]
    return lines[0].partition(":")[2].strip() if lines else "GPU"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
