"""`./kit clean` in a checkout whose test run was killed: the hosts that it left go, too."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from host import DISKS, Host, down
from image import HOSTS, KEY
from plays import PROJECT

# A test run: boots a host, attaches a disk to it, says which one it is, and stays.
TEST_RUN = """
import sys, time
from pathlib import Path
import host
booted = host.up([Path(sys.argv[1])])
booted.attach("vol-0aaaaaaaaaaaaaaa1", Path(sys.argv[2]))
print(booted.number, flush=True)
time.sleep(600)
"""


# One that dies when its host has a number, and nothing else.
EARLY_DEATH = """
import os, sys
import host
def die(new, layers):
    print(new.number, flush=True)
    os.kill(os.getpid(), 9)
host._prepare = die
host.up([])
"""


@pytest.fixture
def checkout(base_image, tmp_path):
    """A copy of what `./kit clean` needs, with the images' key."""
    root = tmp_path / "checkout"
    (root / ".kit/hosts/running").mkdir(parents=True)
    shutil.copy(PROJECT / "kit", root)
    shutil.copytree(PROJECT / "tests/hosts", root / "tests/hosts", ignore=shutil.ignore_patterns("__pycache__"))
    for key in (KEY, KEY.with_suffix(".pub")):
        shutil.copy(key, root / ".kit/hosts")
    return root


@pytest.fixture
def test_run(checkout, base_image, disk_image):
    """(the process, its host)."""
    command = [sys.executable, "-c", TEST_RUN, str(base_image), str(disk_image("data", 1))]
    with subprocess.Popen(command, cwd=checkout / "tests/hosts", stdout=subprocess.PIPE, text=True) as started:
        number = int(started.stdout.readline())
        yield started, Host(number)
        started.kill()
        subprocess.run([checkout / "kit", "clean"], check=False)


def clean(checkout):
    return subprocess.run([checkout / "kit", "clean"], capture_output=True, text=True, check=False)


def there(host, checkout) -> dict[str, bool]:
    processes = subprocess.run(["ip", "netns", "pids", host.name], capture_output=True, text=True, check=False)
    return {
        "mount": str(checkout) in Path("/proc/mounts").read_text(),
        "namespace": Path("/run/netns", host.name).exists(),
        "lease": host.lease.is_symlink(),
        "processes": bool(processes.stdout.split()),
        "disks": any(Path(host.loop(index)).exists() for index in range(DISKS)),
        ".kit": (checkout / ".kit").exists(),
    }


def test_hosts_of_a_running_test_stay_and_those_of_a_killed_one_go(test_run, checkout):
    started, host = test_run
    assert all(there(host, checkout).values())
    refused = clean(checkout)
    assert refused.returncode == 1
    assert "test hosts run there" in refused.stderr and host.name in refused.stderr
    assert all(there(host, checkout).values())
    started.send_signal(signal.SIGKILL)
    started.wait()
    done = clean(checkout)
    assert done.returncode == 0, done.stderr
    assert not any(there(host, checkout).values()), there(host, checkout)
    assert HOSTS.exists()


def test_a_host_that_has_but_its_number_goes_and_another_checkouts_stays(checkout):
    """The other one's test run is dead, too: that is for its own checkout to find out."""
    other = checkout.with_name("other")
    shutil.copytree(checkout, other)
    died = [
        subprocess.run([sys.executable, "-c", EARLY_DEATH], cwd=where / "tests/hosts", capture_output=True, text=True,
                       check=False)
        for where in (checkout, other)
    ]  # fmt: skip
    ours, theirs = (Host(int(done.stdout)) for done in died)
    try:
        for where, seen in ((checkout, [False, True]), (other, [False, False])):
            assert clean(where).returncode == 0
            assert [host.lease.is_symlink() for host in (ours, theirs)] == seen
            assert [Path("/run/netns", host.name).exists() for host in (ours, theirs)] == seen
    finally:
        for host in (ours, theirs):
            down(host)
