"""Role first_boot on a real host that is still busy with itself, and mirrors that fail once."""

import json
import os
import re
import signal
import socketserver
import time
from threading import Thread

import pytest
from host import wait
from image import PROXY_PORT
from network import call
from packages import publish
from plays import Played, play, start

LOCKS = ["/var/lib/apt/lists/lock", "/var/lib/dpkg/lock-frontend"]
HOLD = "import fcntl, sys, time; files = [open(path, 'w') for path in sys.argv[2:]]; " \
    "[fcntl.lockf(file, fcntl.LOCK_EX) for file in files]; print('held', flush=True); time.sleep(int(sys.argv[1]))"
CLOUD_INIT = """#!/bin/sh
[ "$*" = "status --wait --long" ] || exit 9
sleep {seconds}
printf '.....\\n{said}\\n'
exit {code}
"""


def wait_for(host, *options, **settings):
    return play(host, ["first_boot"], settings, "-v", *options)


def while_it_waits(seconds, act, *what, **more) -> Played:
    """What `start` starts, to its end; acts so long after the role began to wait."""
    with start(*what, **more) as started:
        output = ""
        for line in started.stdout:
            output += line
            if "Wait until the host is done" in line:
                time.sleep(seconds)
                act()
    return Played(started.returncode, output)


def waited_seconds(done) -> float:
    return float(re.search(r"waited_seconds: ([\d.]+)", done.output).group(1))


@pytest.fixture
def cloud_init(host):
    path = host.root / "usr/local/bin/cloud-init"

    def install(seconds, code, said):
        path.write_text(CLOUD_INIT.format(seconds=seconds, code=code, said=said))
        path.chmod(0o755)

    yield install
    path.unlink()


@pytest.fixture
def locked(host):
    """`locked(seconds)`: a process of the host holds apt's and dpkg's locks for so long, and ends with the test."""

    def hold(seconds):
        host.run(f"systemd-run --quiet --unit=holder python3 -c \"{HOLD}\" {seconds} {' '.join(LOCKS)}")
        wait(lambda: "held" in host.read("journalctl -u holder --no-pager"), 20, "the locks to be held")

    yield hold
    host.run("systemctl stop holder; systemctl reset-failed holder", check=False)


@pytest.mark.parametrize("code, said, words", [
    (0, "status: done", ""),
    (2, "status: done\\nrecoverable_errors: no such user", "with complaints: status: done recoverable_errors: no such"),
], ids=["done", "degraded"])
def test_it_waits_for_cloud_init_and_tells_its_complaints(host, cloud_init, code, said, words):
    cloud_init(4, code, said)
    done = wait_for(host)
    assert done.code == 0, done.output
    assert done.changed == []
    assert waited_seconds(done) >= 4
    assert words in " ".join(done.output.split())


@pytest.mark.parametrize("seconds, code, words", [
    (0, 1, "cloud-init ended with an error: status: error detail: scripts-user failed"),
    (30, 0, "cloud-init was not over after 2 s"),
], ids=["error", "endless"])
def test_a_first_boot_that_failed_or_never_ends_is_an_error_with_its_reason(host, cloud_init, seconds, code, words):
    cloud_init(seconds, code, "status: error\\ndetail:\\nscripts-user failed")
    done = wait_for(host, first_boot_wait_seconds=2)
    assert done.code != 0
    assert words in " ".join(done.output.split())


def test_who_holds_the_package_manager_for_too_long_is_named(host, locked):
    locked(300)
    done = wait_for(host, first_boot_wait_seconds=2)
    assert done.code != 0
    assert re.search(r"/var/lib/apt/lists/lock by process \d+ \(python3\)", " ".join(done.output.split()))


class Refusing(socketserver.ThreadingTCPServer):
    """In the place of a host's way out: the first requests are refused, the others go through."""

    allow_reuse_address = True

    def __init__(self, host, count):
        self.host, self.left = host, count
        proxy = int((host.directory / "proxy.pid").read_text())
        os.kill(proxy, signal.SIGTERM)
        wait(lambda: not os.path.exists(f"/proc/{proxy}"), 20, "the proxy to end")
        super().__init__((host.gateway, PROXY_PORT), Refusal)
        Thread(target=self._serve).start()

    def _serve(self):
        while self.left > 0:
            self.handle_request()
        self.server_close()
        # As it was: asking again whom it lets through takes longer than a mirror may fail.
        call("tinyproxy", "-c", str(self.host.directory / "proxy.conf"))


class Refusal(socketserver.StreamRequestHandler):
    def handle(self):
        self.server.left -= 1
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 403 Not now\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def include(role, part):
    return {"name": role, "ansible.builtin.import_role": {"name": role, "tasks_from": part}}


def test_packages_are_installed_on_a_host_that_is_busy_and_whose_mirror_fails_once(host, locked):
    """apt knows no package yet, as on a fresh image."""
    host.run("rm -rf /var/lib/apt/lists; mkdir -p /var/lib/apt/lists/partial")
    locked(600)
    refusing = Refusing(host, 3)
    tasks = json.dumps([include("first_boot", "main"), include("mxnet_runtime", "system")])
    done = while_it_waits(20, lambda: host.run("systemctl stop holder"), host, [], {}, "-v", tasks=tasks)
    assert done.code == 0, done.output
    assert refusing.left <= 0
    assert waited_seconds(done) > 5
    assert host.read("dpkg-query -W -f '${db:Status-Status}' python3.11-venv") == "installed"


def test_the_driver_s_packages_survive_a_mirror_that_fails_once_and_sources_without_their_component(host, tmp_path):
    """nvidia-modprobe is in contrib; the host's sources name main alone, as those of Debian's images for clouds."""
    publish(host, tmp_path, {"linux-headers-small": {}})
    host.run("rm -rf /var/lib/apt/lists; mkdir -p /var/lib/apt/lists/partial")
    refusing = Refusing(host, 3)
    task = {"name": "Install", "driver_packages": {"packages": ["nvidia-modprobe"], "kernel": "small"}}
    done = play(host, ["first_boot"], {}, "-v", tasks=json.dumps([task]), ANSIBLE_LIBRARY="roles/nvidia_driver/library",
                ANSIBLE_MODULE_UTILS="roles/nvidia_driver/module_utils:roles/data_volume/module_utils")
    assert refusing.left <= 0
    assert "Install" in done.changed, done.output
    assert host.read("dpkg-query -W -f '${db:Status-Status}' nvidia-modprobe") == "installed"


SEED = """#cloud-config
ssh_deletekeys: false
disable_root: false
preserve_hostname: true
locale: false
runcmd: ["while ! test -e /var/tmp/go-on; do sleep 1; done", {last}]
"""


@pytest.mark.slow
@pytest.mark.parametrize("last, code, words", [
    ("touch /var/tmp/over", 0, "waited_seconds"),
    ("[/no/such/program]", 2, "cloud-init ended with an error: status: error"),
], ids=["done", "error"])
def test_debian_s_own_cloud_init_is_waited_for(fresh_host, last, code, words):
    fresh_host.run("apt-get -q update && apt-get -q -y --no-install-recommends install cloud-init", timeout_seconds=300)
    seed = fresh_host.root / "var/lib/cloud/seed/nocloud"
    seed.mkdir(parents=True)
    (seed / "meta-data").write_text("instance-id: one\n")
    (seed / "user-data").write_text(SEED.format(last=last))
    settings = fresh_host.root / "etc/cloud/cloud.cfg.d/99-test.cfg"
    settings.write_text("datasource_list: [NoCloud]\nnetwork: {config: disabled}\n")
    fresh_host.run("cloud-init clean")
    fresh_host.reboot()
    done = while_it_waits(
        10, lambda: fresh_host.run("touch /var/tmp/go-on"), fresh_host, ["first_boot"], {}, "-v"
    )
    assert done.code == code, done.output
    assert words in " ".join(done.output.split()), done.output
    # It was over before the play was.
    assert (fresh_host.root / "var/tmp/over").exists() == (code == 0)
