"""What a host without a GPU is given in place of one: 16 K80s on its PCI bus, another kernel's release.

The kernel's own lists of devices and modules are this machine's, so others hide them.
"""

import subprocess
from pathlib import Path

SCRIPT = """#!/bin/sh -e
mount -t tmpfs none /sys/module
mount -t tmpfs none /sys/bus/pci/devices
for slot in $(seq 16); do
    mkdir /sys/bus/pci/devices/$slot
    cd /sys/bus/pci/devices/$slot
    echo 0x030200 > class; echo 0x10de > vendor; echo 0x102d > device
done
"""
UNIT = """[Unit]
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/pci-devices
[Install]
WantedBy=multi-user.target
"""


def fill(host) -> None:
    """After every boot, too."""
    (host.root / "usr/local/sbin/pci-devices").write_text(SCRIPT)
    (host.root / "etc/systemd/system/pci-devices.service").write_text(UNIT)
    host.run("chmod +x /usr/local/sbin/pci-devices; systemctl enable --now pci-devices")


def run_kernel(host, folder: Path, release: str) -> None:
    """The host's programs take this for the release of the kernel that runs, until /etc/ld.so.preload is removed."""
    library, source = folder / "uname.so", Path(__file__).parent / "gpus" / "uname.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    (host.root / "usr/local/lib/uname.so").write_bytes(library.read_bytes())
    (host.root / "etc/fake-kernel").write_text(f"{release}\n")
    (host.root / "etc/ld.so.preload").write_text("/usr/local/lib/uname.so\n")
