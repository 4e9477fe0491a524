"""What the kernel tells about this machine's life. Each is None where it does not say."""

from pathlib import Path

PROC = Path("/proc")


def boot_id() -> str | None:
    """Differs between machines, and from one start of a machine to the next."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def memory_kills() -> int | None:
    """How many processes the kernel has ended since the machine's start because memory ran out (a group's own, too)."""
    try:
        lines = (PROC / "vmstat").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
