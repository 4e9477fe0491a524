"""How much memory is free for batches: of the machine, and of the control group that the process runs in."""

from pathlib import Path

import psutil

from trainer.errors import TooLargeError

_MB = 1e6
_GROUPS = Path("/sys/fs/cgroup")
# Each version's files for the limit and for what is in use; "max" is no limit.
_FILES = (("", "memory.max", "memory.current"), ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))


def available_bytes() -> int:
    """What can be used without swapping, at most what the control group still allows."""
    return min([psutil.virtual_memory().available, *_left_in_groups()])


def check_memory(needed_bytes: int, what: str) -> None:
    """TooLargeError with both numbers when there is less than that."""
    free = available_bytes()
    if needed_bytes > free:
        raise TooLargeError(
            f"{what} take {needed_bytes / _MB:,.0f} MB of memory, but {free / _MB:,.0f} MB are free"
        )


def _left_in_groups() -> list[int]:
    """Of each group with a limit, the process's own and those around it."""
    left = []
    for line in _own_groups():
        controllers, name = line.split(":", 2)[1:]
        for controller, limit_file, usage_file in _FILES:
            if controller in controllers.split(","):
                folder = _GROUPS / controller / name.lstrip("/")
                for group in (folder, *folder.parents):
                    limit, usage = _number(group / limit_file), _number(group / usage_file)
                    if limit is not None and usage is not None:
                        left.append(max(0, limit - usage))
    return left


def _own_groups() -> list[str]:
    try:
        return Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
