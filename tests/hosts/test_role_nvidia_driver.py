"""Role nvidia_driver on a real host whose GPUs, driver packages and nvidia-smi are small stand-ins.

apt, dpkg, systemd and the reboot are real. The tests follow one host through its life, in this order.
"""

import os
from pathlib import Path

import pytest
from packages import publish
from plays import play

GPUS = Path(__file__).parent / "gpus"
VERSION = "470.256.02"
LOG = "/var/lib/dkms/nvidia-tesla-470/470.256.02/build/make.log"
DKMS = f"""
[ -e /etc/build-works ] && {{ echo {VERSION} > /var/lib/fake-gpu/built; exit 0; }}
mkdir -p $(dirname {LOG})
echo "nv-pci.c:77:5: error: implicit declaration of function 'screen_info'" > {LOG}
exit 10
"""
UNIT = "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
# The kernel's own lists of devices and modules are this machine's.
PCI_DEVICES = """#!/bin/sh -e
mount -t tmpfs none /sys/module
mount -t tmpfs none /sys/bus/pci/devices
for slot in $(seq 16); do
    mkdir /sys/bus/pci/devices/$slot
    cd /sys/bus/pci/devices/$slot
    echo 0x030200 > class; echo 0x10de > vendor; echo 0x102d > device
done
"""
PCI_UNIT = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/pci-devices
[Install]
WantedBy=multi-user.target
"""
NAMES = [
    "nvidia-tesla-470-kernel-dkms", "nvidia-tesla-470-smi", "libnvidia-tesla-470-cuda1",
    "libnvidia-tesla-470-ptxjitcompiler1", "libnvidia-tesla-470-cfg1", "nvidia-persistenced",
]
SETTINGS = {"nvidia_driver_gpus": 16, "nvidia_driver_branch": "470", "nvidia_driver_clocks_mhz": "2505,875"}


def configure(host, *options, **settings):
    return play(host, ["nvidia_driver"], SETTINGS | settings, *options)


@pytest.fixture(scope="module", autouse=True)
def gpus(host, tmp_path_factory):
    """16 K80s on the bus, and packages that bring their driver."""
    contents = {name: {} for name in [*NAMES, f"linux-headers-{os.uname().release}"]}
    contents["nvidia-tesla-470-kernel-dkms"]["postinst"] = DKMS
    contents["nvidia-tesla-470-smi"]["files"] = {"usr/bin/nvidia-smi": (GPUS / "nvidia-smi").read_text()}
    contents["nvidia-persistenced"]["files"] = {"lib/systemd/system/nvidia-persistenced.service": UNIT}
    publish(host, tmp_path_factory.mktemp("packages"), contents)
    programs = {
        "sbin/modinfo": "cat /var/lib/fake-gpu/built",
        "sbin/modprobe": "mkdir -p /sys/module/nvidia && cp /var/lib/fake-gpu/built /sys/module/nvidia/version",
    }
    for path, script in programs.items():
        (host.root / "usr/local" / path).write_text(f"#!/bin/sh\n{script}\n")
        (host.root / "usr/local" / path).chmod(0o755)
    state = {"count": "16", "clocks": "2505, 562", "ecc": "Enabled", "ecc-pending": "Enabled"}
    (host.root / "var/lib/fake-gpu").mkdir()
    for name, text in state.items():
        (host.root / "var/lib/fake-gpu" / name).write_text(f"{text}\n")
    (host.root / "usr/local/sbin/pci-devices").write_text(PCI_DEVICES)
    (host.root / "etc/systemd/system/pci-devices.service").write_text(PCI_UNIT)
    host.run("chmod +x /usr/local/sbin/pci-devices; systemctl enable --now pci-devices")


@pytest.mark.parametrize("settings, words", [
    ({"nvidia_driver_gpus": 8}, "must be the number of GPUs on the PCI bus, 16, got 8"),
    ({"nvidia_driver_branch": "current"}, "branch 470 is the last that knows the GPUs here"),
], ids=["another count", "too new a branch"])
def test_what_cannot_work_is_refused_before_anything_is_installed(host, settings, words):
    done = configure(host, **settings)
    assert done.code != 0
    assert words in " ".join(done.output.split())
    assert host.run("dpkg -l | grep nvidia", check=False).stdout == ""


def test_a_build_that_fails_tells_the_compilers_reason_and_leaves_dpkg_whole(host):
    done = configure(host)
    assert done.code != 0
    assert "implicit declaration of function 'screen_info'" in done.output
    assert host.read("dpkg --audit") == ""
    assert host.run("dpkg -l | grep ^i.*nvidia", check=False).stdout == ""


def test_the_driver_is_installed_loaded_set_and_kept(host):
    host.run("touch /etc/build-works")
    predicted = configure(host, "--check")
    assert predicted.code == 0, predicted.output
    assert host.run("command -v nvidia-smi", check=False).stdout == ""
    done = configure(host)
    assert done.code == 0, done.output
    assert set(NAMES) <= set(host.read("apt-mark showhold").split())
    assert host.read("cat /sys/module/nvidia/version") == VERSION
    assert host.read("cat /var/lib/fake-gpu/clocks") == "2505, 875"
    assert host.read("systemctl is-active nvidia-persistenced; systemctl is-enabled nvidia-persistenced").split() == [
        "active", "enabled"]
    assert "nvidia" in host.read("apt-config dump Unattended-Upgrade::Package-Blacklist")
    for options in ([], ["--check"]):
        again = configure(host, *options)
        assert (again.code, again.changed) == (0, []), again.output


def test_settings_that_a_gpu_does_not_keep_and_gpus_that_do_not_answer_are_errors(host):
    host.run("touch /var/lib/fake-gpu/deaf")
    done = configure(host, nvidia_driver_clocks_mhz="2505,810")
    assert done.code != 0
    assert "Failed to set the GPUs" in done.output
    host.run("rm /var/lib/fake-gpu/deaf; echo 15 > /var/lib/fake-gpu/count")
    done = configure(host)
    host.run("echo 16 > /var/lib/fake-gpu/count")
    assert done.code != 0
    assert "16 must answer, got 15" in done.output


def test_no_reboot_under_a_training_and_one_when_it_is_over(host):
    host.run("rm -r /sys/module/nvidia; mkdir /sys/module/nouveau")
    (host.root / "etc/systemd/system/trainer.service").write_text(UNIT)
    host.run("systemctl daemon-reload; systemctl start trainer")
    done = configure(host)
    assert done.code != 0
    assert "trainer.service is training (stop it first)" in done.output
    host.run("systemctl stop trainer")
    done = configure(host, nvidia_driver_reboot_allowed=False)
    assert "nvidia_driver_reboot_allowed is false" in done.output
    done = configure(host)
    assert done.code == 0, done.output
    assert "nvidia_driver : Boot the host again" in done.changed
    assert host.run("test -e /sys/module/nouveau", check=False).returncode != 0
