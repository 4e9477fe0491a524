"""Role nvidia_driver with its other options: branch by the GPUs' ids, clocks as they are, no error correction.

The stand-ins are those of test_role_nvidia_driver. The tests follow one host through its life, in this order.
"""

from plays import KILLED, killed_after, play
from test_role_nvidia_driver import NAMES, gpus  # noqa: F401 a fixture

SETTINGS = {"nvidia_driver_gpus": 16, "nvidia_driver_ecc": "off"}
INSTALL = "nvidia_driver : Install the driver for the running kernel and hold it"
LOAD = "nvidia_driver : Load the driver"
KEEP = "nvidia_driver : Run the persistence daemon"
SET = "nvidia_driver : Set clocks and error correction, and count the GPUs that answer"
REBOOT = "nvidia_driver : Boot the host again for its error correction"
WRITE = "nvidia_driver : Write what readies the GPUs at every boot"
READY = "nvidia_driver : Ready them"
# A boot is when error correction changes, and udev then loads the driver.
BOOT = """[Unit]
After=pci-devices.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'cd /var/lib/fake-gpu; cp ecc-pending ecc; [ ! -e built ] || /usr/local/sbin/modprobe nvidia'
[Install]
WantedBy=multi-user.target
"""


def configure(host, *options, **environment):
    return play(host, ["nvidia_driver"], SETTINGS, *options, **environment)


def answers(host):
    return host.read("nvidia-smi --query-gpu=all | sort | uniq -c").split(maxsplit=1)


def test_a_fresh_host_is_predicted(host):
    (host.root / "etc/systemd/system/gpu-boot.service").write_text(BOOT)
    host.run("touch /etc/build-works; systemctl enable gpu-boot")
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
