"""Role nvidia_driver with Debian's own driver and DKMS: a kernel that it builds for, and one that it does not."""

import gpu_bus
import pytest
from image import debian_sources
from plays import Played, play

pytestmark = pytest.mark.slow
SETTINGS = {"nvidia_driver_gpus": 16, "nvidia_driver_branch": "470"}
LIMIT_SECONDS = 3600  # 8 min on two cores that have nothing else to do


@pytest.fixture
def host(fresh_host):
    gpu_bus.fill(fresh_host)
    return fresh_host


def run_newest_kernel(host, folder, suite: str, pattern: str) -> str:
    """Lets the host seem to run the newest kernel of that suite whose release matches; returns the release."""
    mirror = debian_sources()[0][0]
    (host.root / "etc/apt/sources.list.d/kernel.list").write_text(f"deb {mirror} {suite} main\n")
    host.run("apt-get -q update", timeout_seconds=300)
    names = host.read(f"apt-cache search --names-only '^linux-headers-{pattern}-amd64$' | cut -d ' ' -f 1 | sort -V")
    release = names.split()[-1].removeprefix("linux-headers-")
    gpu_bus.run_kernel(host, folder, release)
    assert host.read("uname -r") == release
    return release


def configure(host) -> Played:
    host.run("renice -n 15 -p $(pgrep -o -x sshd)")
    return play(host, ["nvidia_driver"], SETTINGS, limit_seconds=LIMIT_SECONDS)


def test_the_driver_is_built_for_debians_kernel_and_held(host, tmp_path):
    release = run_newest_kernel(host, tmp_path, "bookworm", r"6\.1\.[0-9-]+")
    # A newer branch beside it, which Debian prefers.
    current = "/usr/lib/nvidia/current"
    host.run(f"mkdir -p {current}; update-alternatives --install /usr/lib/nvidia/nvidia nvidia {current} 535")
    done = configure(host)
    assert "nvidia_driver : Install the driver for the running kernel and hold it" in done.changed, done.output
    assert host.read(f"modinfo -k {release} -F version nvidia-tesla-470").startswith("470.")
    assert "installed" in host.read(f"dkms status -k {release}")
    assert "Value: /usr/lib/nvidia/tesla-470" in host.read("update-alternatives --query nvidia").splitlines()
    held = host.read("apt-mark showhold").split()
    assert {"nvidia-tesla-470-kernel-dkms", f"linux-headers-{release}"} <= set(held)
    assert host.read("dpkg --audit; apt-get -q check >/dev/null && echo whole") == "whole"
    # It ends where it needs a GPU.
    assert done.code != 0
    assert "modprobe" in done.output.rpartition("TASK [")[2]


def test_a_kernel_that_the_driver_does_not_build_for_is_told_with_the_compilers_words(host, tmp_path):
    release = run_newest_kernel(host, tmp_path, "bookworm-backports", r"6\.12\.[0-9+deb~.]+")
    done = configure(host)
    assert done.code != 0
    assert f"Failed to build the driver for kernel {release}" in done.output
    assert "make.log" in done.output and "error: " in done.output
    assert host.read("dpkg --audit; apt-get -q check >/dev/null && echo whole") == "whole"
    assert host.run("dpkg -l | grep ^i.*nvidia", check=False).stdout == ""
