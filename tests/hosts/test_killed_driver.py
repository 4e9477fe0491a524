"""A controller that is killed after any task of nvidia_driver that changes something: no boot and no setting is lost.

The tests follow one host through its life, in this order.
"""

import os

import pytest
from driver_host import NAMES, VERSION, answers, let_boots_bring_the_newest_kernel, run_older_kernel
from host import wait
from plays import killed_until_done, play

PROFILE = {"nvidia_driver_gpus": 16, "nvidia_driver_branch": "470", "nvidia_driver_clocks_mhz": "2505,875",
           "nvidia_driver_ecc": "off"}  # fmt: skip
FILES = ["Keep nouveau from taking the GPUs", "Keep unattended upgrades from the driver and the kernel"]
INSTALL = "Install the driver for the running kernel and hold it"
SET = "Set clocks and error correction, and count the GPUs that answer"
REBOOT = "Boot the host again for its error correction"
WRITE = "Write what readies the GPUs at every boot"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("k80s")]


def killed(host, **settings):
    profile = PROFILE | settings
    changed = killed_until_done(lambda environment: play(host, ["nvidia_driver"], profile, **environment))
    again = play(host, ["nvidia_driver"], profile)
    assert (again.code, again.changed) == (0, []), again.output
    return [name.removeprefix("nvidia_driver : ") for name in changed]


def check(host, settings):
    assert answers(host) == ["16", settings]
    assert set(NAMES) <= set(host.read("apt-mark showhold").split())
    assert host.read("uname -r; cat /sys/module/nvidia/version").split() == [os.uname().release, VERSION]
    assert host.run("test -e /sys/module/nouveau", check=False).returncode != 0
    for unit in ("nvidia-persistenced", "nvidia-ready"):
        assert host.read(f"systemctl is-active {unit}; systemctl is-enabled {unit}").split() == ["active", "enabled"]


def test_a_fresh_host_that_runs_an_older_kernel(host, tmp_path):
    """Without a controller that dies the boot for error correction would be the only reason to set the clocks twice."""
    run_older_kernel(host, tmp_path)
    let_boots_bring_the_newest_kernel(host)
    host.run("touch /etc/build-works")
    assert killed(host) == [
        "Boot the kernel that the next boot would bring", *FILES, INSTALL, "Load the driver",
        "Run the persistence daemon", SET, REBOOT, SET, WRITE, "Ready them",
    ]
    check(host, "2505, 875, Disabled, Disabled")


def test_a_host_whose_every_setting_changes_while_nouveau_has_its_gpus(host):
    host.run(f"rm -r /sys/module/nvidia /etc/modprobe.d/nouveau.conf /etc/apt/apt.conf.d/52nvidia-driver;"
             f" mkdir /sys/module/nouveau; apt-mark unhold {' '.join(NAMES)};"
             " systemctl disable --now nvidia-persistenced nvidia-ready")  # fmt: skip
    changed = killed(host, nvidia_driver_clocks_mhz="2505,810", nvidia_driver_ecc="on")
    assert changed == [
        *FILES, INSTALL, "Boot the host again", "Run the persistence daemon", SET, REBOOT, SET, WRITE, "Ready them",
    ]
    check(host, "2505, 810, Enabled, Enabled")
    host.reboot()
    wait(lambda: answers(host)[1].startswith("2505, 810"), 60, "the clocks to be set")
    check(host, "2505, 810, Enabled, Enabled")
