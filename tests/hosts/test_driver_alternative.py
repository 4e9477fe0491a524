"""Role nvidia_driver with its other options: branch by the GPUs' ids, clocks as they are, no error correction.

The tests follow one host through its life, in this order.
"""

import pytest
from driver_host import NAMES, answers
from plays import KILLED, killed_after, play

pytestmark = pytest.mark.usefixtures("k80s")
SETTINGS = {"nvidia_driver_gpus": 16, "nvidia_driver_ecc": "off"}
INSTALL = "nvidia_driver : Install the driver for the running kernel and hold it"
LOAD = "nvidia_driver : Load the driver"
KEEP = "nvidia_driver : Run the persistence daemon"
SET = "nvidia_driver : Set clocks and error correction, and count the GPUs that answer"
REBOOT = "nvidia_driver : Boot the host again for its error correction"
WRITE = "nvidia_driver : Write what readies the GPUs at every boot"
READY = "nvidia_driver : Ready them"


def configure(host, *options, **environment):
    return play(host, ["nvidia_driver"], SETTINGS, *options, **environment)


def test_a_fresh_host_is_predicted(host):
    host.run("touch /etc/build-works")
    done = configure(host, "--check")
    assert done.code == 0, done.output
    assert done.counts["changed"] >= 3
    assert host.run("ls /etc/modprobe.d/nouveau.conf; dpkg -l | grep nvidia", check=False).stdout == ""


def test_a_controller_that_dies_before_the_driver_is_loaded_and_before_the_boot_loses_neither(host):
    died = configure(host, **killed_after(3))
    assert (died.code, died.changed[-1]) == (KILLED, INSTALL)
    died = configure(host, **killed_after(3))
    assert (died.code, died.changed) == (KILLED, [LOAD, KEEP, SET]), died.output
    assert answers(host) == ["16", "2505, 562, Enabled, Disabled"]
    done = configure(host, "-e", "nvidia_driver_reboot_allowed=false")
    assert done.code != 0
    assert "but nvidia_driver_reboot_allowed is false" in " ".join(done.output.split())
    done = configure(host)
    assert done.code == 0, done.output
    assert done.changed == [REBOOT, WRITE, READY]
    assert answers(host) == ["16", "2505, 562, Disabled, Disabled"]
    assert set(NAMES) <= set(host.read("apt-mark showhold").split())


def test_it_stays_so_after_a_reboot_and_a_second_run_changes_nothing(host):
    host.reboot()
    assert host.read("cat /sys/module/nvidia/version; systemctl is-active nvidia-persistenced").split()[1] == "active"
    assert answers(host) == ["16", "2505, 562, Disabled, Disabled"]
    for options in ([], ["--check"]):
        again = configure(host, *options)
        assert (again.code, again.changed) == (0, []), again.output
