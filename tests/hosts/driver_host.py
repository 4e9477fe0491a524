"""A host whose GPUs, driver packages and nvidia-smi are small stand-ins; apt, dpkg, systemd and the boots are real."""

import os
from pathlib import Path

import gpu_bus
from host import Host
from packages import publish

GPUS = Path(__file__).parent / "gpus"
VERSION = "470.256.02"
LOG = "/var/lib/dkms/nvidia-tesla-470/470.256.02/build/make.log"
# What dpkg runs after it unpacked the driver, and what dkms does when it is asked.
DKMS = f"""
[ -e /etc/build-works ] && {{ echo {VERSION} > /var/lib/fake-gpu/built; exit 0; }}
mkdir -p $(dirname {LOG})
echo "nv-pci.c:77:5: error: implicit declaration of function 'screen_info'" > {LOG}
exit 10
"""
UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
MODPROBE = """#!/bin/sh
[ "$*" = "-c 0 -u" ] && touch /dev/nvidia-uvm
"""
OTHER_VERSION = "535.261.03"
# As Debian has it: the alternative that is chosen is loaded. One that is loaded stays.
LOAD = f"""
[ ! -e /sys/module/nvidia ] || exit 0
mkdir /sys/module/nvidia && cp /var/lib/fake-gpu/built /sys/module/nvidia/version
case $(readlink -f /usr/lib/nvidia/nvidia) in */current) echo {OTHER_VERSION} >/sys/module/nvidia/version ;; esac
"""
NAMES = [
    "nvidia-tesla-470-kernel-dkms", "nvidia-tesla-470-smi", "libnvidia-tesla-470-cuda1",
    "libnvidia-tesla-470-ptxjitcompiler1", "libnvidia-tesla-470-cfg1", "nvidia-persistenced",
]
FREE_CLOCKS = "2505, 562"
# A boot is when error correction changes and the clocks are forgotten; udev then loads the driver.
BOOT = f"""[Unit]
After=pci-devices.service
Before=nvidia-ready.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cd /var/lib/fake-gpu; cp ecc-pending ecc; echo {FREE_CLOCKS} >clocks'
ExecStart=/bin/sh -c '[ ! -e /var/lib/fake-gpu/built ] || /usr/local/sbin/modprobe nvidia'
ExecStart=/bin/sh -c '! grep -qs nouveau /etc/modules || mkdir /sys/module/nouveau'
[Install]
WantedBy=multi-user.target
"""


def give_gpus(host: Host, folder: Path) -> None:
    """The GPUs, and packages that bring their driver; it builds once there is /etc/build-works."""
    contents = {name: {} for name in [*NAMES, f"linux-headers-{os.uname().release}"]}
    contents["nvidia-tesla-470-kernel-dkms"]["postinst"] = DKMS
    contents["nvidia-tesla-470-smi"]["files"] = {
        "usr/bin/nvidia-smi": (GPUS / "nvidia-smi").read_text(), "usr/bin/nvidia-modprobe": MODPROBE,
    }
    contents["nvidia-persistenced"]["files"] = {"lib/systemd/system/nvidia-persistenced.service": UNIT}
    publish(host, folder, contents)
    programs = {
        "sbin/modinfo": "cat /var/lib/fake-gpu/built",
        "sbin/dkms": DKMS,
        "sbin/modprobe": LOAD,
    }
    for path, script in programs.items():
        (host.root / "usr/local" / path).write_text(f"#!/bin/sh\n{script}\n")
        (host.root / "usr/local" / path).chmod(0o755)
    state = {"count": "16", "clocks": FREE_CLOCKS, "ecc": "Enabled", "ecc-pending": "Enabled"}
    (host.root / "var/lib/fake-gpu").mkdir()
    for name, text in state.items():
        (host.root / "var/lib/fake-gpu" / name).write_text(f"{text}\n")
    (host.root / "etc/systemd/system/gpu-boot.service").write_text(BOOT)
    gpu_bus.fill(host)
    host.run("systemctl enable gpu-boot")


def bring_another_branch(host: Host) -> None:
    """Debian's newer driver, installed beside the K80's: it is the one that is loaded."""
    for folder, priority in (("tesla-470", 470), ("current", 535)):
        path = f"/usr/lib/nvidia/{folder}"
        host.run(f"mkdir -p {path}; update-alternatives --install /usr/lib/nvidia/nvidia nvidia {path} {priority}")


def run_older_kernel(host: Host, folder: Path) -> None:
    """One that the host has had an upgrade of since it was booted."""
    newest = os.uname().release
    gpu_bus.run_kernel(host, folder, "6.1.0-1-amd64")
    host.run(f"touch /boot/vmlinuz-{newest}; ln -s boot/vmlinuz-{newest} /vmlinuz")


def let_boots_bring_the_newest_kernel(host: Host) -> None:
    boot_loader = host.root / "etc/systemd/system/pci-devices.service.d/boot.conf"
    boot_loader.parent.mkdir()
    boot_loader.write_text("[Service]\nExecStartPre=rm -f /etc/ld.so.preload\n")


def answers(host: Host) -> list[str]:
    """[how many GPUs answer, "memory clock, graphics clock, error correction now, from the next boot on"]."""
    return host.read("nvidia-smi --query-gpu=all | sort | uniq -c").split(maxsplit=1)
