"""A scripted libnvidia-ml.so.1: no driver, no GPU. For processes here, and for test hosts."""

import os
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "nvml.c"
HOST_SCRIPT = "etc/fake-nvml"
FIELDS = (
    "present", "util", "used", "total", "power", "clock", "temperature", "reasons", "error", "delay", "ecc", "major",
    "minor", "name",
)
K80 = {
    "present": 1, "util": 97, "used": 10_900, "total": 11_439, "power": 138_000, "clock": 875, "temperature": 66,
    "reasons": 0, "error": 0, "delay": 0, "ecc": 0, "major": 3, "minor": 7, "name": "Tesla K80",
}  # fmt: skip
NOT_SUPPORTED, LOST, MISMATCH, IN_TURNS = -1, 15, 18, -1000


class FakeNvml:
    """16 K80s until told otherwise. `environment` makes a process find this library and its script.

    A host's programs find them without one: `FakeNvml(host.root / "usr/local/lib", host.root / HOST_SCRIPT)`.
    """

    def __init__(self, folder: Path, script: Path | None = None, gpus: int = 16):
        self._script = script or folder / "nvml.txt"
        self.library = folder / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(self.library), str(_SOURCE)], check=True)
        self.environment = {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML": str(self._script)}
        self.init, self.devices = 0, [dict(K80) for _ in range(gpus)]
        self.write()

    def change(self, device: int, **fields) -> None:
        self.devices[device] |= fields
        self.write()

    def write(self) -> None:
        """Replaces the script as a whole: the library may read it at any moment."""
        rows = [" ".join(str(device[field]) for field in FIELDS) for device in self.devices]
        new = self._script.with_suffix(".new")
        new.write_text("\n".join([str(self.init), *rows]) + "\n")
        os.replace(new, self._script)
