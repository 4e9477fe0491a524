"""Role nvidia_driver on a real host whose GPUs and their driver are small stand-ins.

The tests follow one host through its life, in this order.
"""

import json
import os

import pytest
from driver_host import (
    DKMS,
    NAMES,
    OTHER_VERSION,
    UNIT,
    VERSION,
    answers,
    bring_another_branch,
    let_boots_bring_the_newest_kernel,
    run_older_kernel,
)
from host import wait
from packages import publish
from plays import play

pytestmark = pytest.mark.usefixtures("k80s")
SETTINGS = {"nvidia_driver_gpus": 16, "nvidia_driver_branch": "470", "nvidia_driver_clocks_mhz": "2505,875"}


def configure(host, *options, **settings):
    return play(host, ["nvidia_driver"], SETTINGS | settings, *options)


@pytest.mark.parametrize("settings, words", [
    ({"nvidia_driver_gpus": 8}, "must be the number of GPUs on the PCI bus, 16, got 8"),
    ({"nvidia_driver_branch": "current"}, "branch 470 is the last that knows the GPUs here"),
], ids=["another count", "too new a branch"])
def test_what_cannot_work_is_refused_before_anything_is_installed(host, settings, words):
    done = configure(host, **settings)
    assert done.code != 0
    assert words in " ".join(done.output.split())
    assert host.run("dpkg -l | grep nvidia", check=False).stdout == ""


def test_the_newest_kernel_is_booted_first_and_a_failed_build_tells_the_compilers_reason(host, tmp_path):
    newest = os.uname().release
    run_older_kernel(host, tmp_path)
    done = configure(host)
    assert done.code != 0
    assert f"the boot loader takes 6.1.0-1-amd64, and /vmlinuz names {newest}" in " ".join(done.output.split())
    let_boots_bring_the_newest_kernel(host)
    done = configure(host)
    assert done.code != 0
    assert done.changed[0] == "nvidia_driver : Boot the kernel that the next boot would bring"
    assert f"Failed to build the driver for kernel {newest}" in done.output
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
    """One that starts is a training, too: it tells that it is ready once steps flow."""
    host.run("rm -r /sys/module/nvidia; mkdir /sys/module/nouveau")
    starting = UNIT.replace("[Service]\n", "[Service]\nType=notify\nTimeoutStartSec=infinity\n")
    (host.root / "etc/systemd/system/trainer.service").write_text(starting)
    host.run("systemctl daemon-reload; systemctl start --no-block trainer")
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


def test_a_training_that_began_with_the_boot_is_not_ended_by_the_next_one(host):
    host.run("rm -r /sys/module/nvidia; mkdir /sys/module/nouveau; systemctl enable trainer")
    done = configure(host, nvidia_driver_ecc="off")
    assert done.code != 0
    assert "nvidia_driver : Boot the host again" in done.changed
    assert "with the next boot of the host, but trainer.service is training" in " ".join(done.output.split())
    assert answers(host) == ["16", "2505, 875, Enabled, Disabled"]
    host.run("systemctl disable --now trainer")
    done = configure(host, nvidia_driver_ecc="on")
    assert (done.code, answers(host)) == (0, ["16", "2505, 875, Enabled, Enabled"]), done.output


def test_of_several_branches_the_right_one_is_loaded_now_and_from_now_on(host):
    bring_another_branch(host)
    host.reboot()
    assert host.read("cat /sys/module/nvidia/version") == OTHER_VERSION
    predicted = configure(host, "--check")
    assert "nvidia_driver : Install the driver for the running kernel and hold it" in predicted.changed
    done = configure(host)
    assert done.code == 0, done.output
    assert host.read("cat /sys/module/nvidia/version") == VERSION
    again = configure(host)
    assert (again.code, again.changed) == (0, []), again.output


def test_nouveau_that_comes_back_with_every_boot_is_told(host):
    host.run("echo nouveau >> /etc/modules")
    host.reboot()
    done = configure(host)
    host.run("sed -i /nouveau/d /etc/modules")
    assert done.code != 0
    assert "nvidia_driver : Boot the host again" in done.changed
    assert "another one, or nouveau, is loaded still" in " ".join(done.output.split())


def test_a_module_that_is_gone_is_built_again(host):
    host.run("rm -r /etc/build-works /var/lib/fake-gpu/built")
    done = configure(host)
    assert done.code != 0
    assert "implicit declaration of function 'screen_info'" in done.output
    assert host.read("dpkg-query -W -f '${db:Status-Status}' nvidia-tesla-470-kernel-dkms") == "installed"
    host.run("touch /etc/build-works")
    done = configure(host)
    assert done.code == 0, done.output
    assert host.read("cat /sys/module/nvidia/version") == VERSION


def test_a_boot_gives_cuda_its_devices_and_the_gpus_their_clocks(host):
    host.reboot()
    wait(lambda: host.read("cat /var/lib/fake-gpu/clocks") == "2505, 875", 60, "the clocks to be set")
    assert host.run("test -e /dev/nvidia-uvm", check=False).returncode == 0


def test_a_build_that_fails_with_another_kernel_s_headers_leaves_dpkg_whole_and_so_does_an_interruption(host, tmp_path):
    """A driver that is there is built when a kernel's headers are installed. Of other packages none is removed."""
    publish(host, tmp_path, {"linux-headers-other": {"postinst": DKMS}, "orphan": {}})
    host.run("apt-get -q -y install orphan; apt-mark auto orphan")
    host.run("rm /etc/build-works; touch /var/lib/dpkg/updates/0001")
    task = [{"name": "Install", "driver_packages": {"packages": NAMES, "kernel": "other"}}]
    done = play(host, [], {}, tasks=json.dumps(task), ANSIBLE_LIBRARY="roles/nvidia_driver/library",
                ANSIBLE_MODULE_UTILS="roles/nvidia_driver/module_utils")
    assert done.code != 0
    assert "Failed to build the driver for kernel other: " in done.output
    assert "implicit declaration of function 'screen_info'" in done.output
    assert host.read("dpkg --audit; apt-get -q check >/dev/null && echo whole") == "whole"
    for name in ("nvidia-tesla-470-kernel-dkms", "orphan"):
        assert host.read(f"dpkg-query -W -f '${{db:Status-Status}}' {name}") == "installed"


@pytest.mark.slow
def test_unattended_upgrades_pass_over_driver_and_kernel(host, tmp_path):
    """By name, too: not only because they are held."""
    host.run("touch /etc/build-works")
    assert configure(host).code == 0
    publish(host, tmp_path / "old", {"harmless": {}})
    host.run("apt-get -q -y --no-install-recommends install unattended-upgrades harmless", timeout_seconds=600)
    kept = [*NAMES, f"linux-headers-{os.uname().release}"]
    host.run(f"apt-mark unhold {' '.join(kept)}")
    only_here = 'Unattended-Upgrade::Origins-Pattern { "site="; };\n'
    (host.root / "etc/apt/apt.conf.d/60test").write_text(f"#clear Unattended-Upgrade::Origins-Pattern;\n{only_here}")
    publish(host, tmp_path / "new", {name: {} for name in ["harmless", *kept]}, version=10000)
    host.run("unattended-upgrade --verbose", timeout_seconds=600)
    versions = host.read(f"dpkg-query -W -f '${{Version}} ' harmless {' '.join(kept)}").split()
    assert versions == ["10000", *["9999"] * len(kept)]
