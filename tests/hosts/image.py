"""The disk image that every test host is a clone of: a small Debian 12 with systemd, sshd and nothing of the kit.

Made once and kept in .kit/hosts/; another one is made when what it is made of changes. Package mirrors come from this
machine's own configuration.
"""

import fcntl
import hashlib
import inspect
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

HOSTS = Path(__file__).resolve().parents[2] / ".kit" / "hosts"
KEY = HOSTS / "key"
PROXY_PORT = 8888
PROGRAMS = {
    "systemd-nspawn": "systemd-container", "mmdebstrap": "mmdebstrap", "tinyproxy": "tinyproxy-bin",
    "ssh": "openssh-client", "ip": "iproute2",
}
_RELEASES = ("bookworm", "bookworm-updates", "bookworm-security")
_PACKAGES = (
    "systemd,systemd-sysv,dbus,udev,openssh-server,python3-minimal,python3-apt,iproute2,ca-certificates,sudo,procps,kmod,"
    "e2fsprogs,xfsprogs,netbase"
)
# In a container PID 1 looks for udev before udevd is there, and then ignores it: every mount by UUID would wait for its
# time-out. Executing PID 1 again once udevd runs is the cure.
_UDEV_UNIT = """\
[Unit]
DefaultDependencies=no
After=systemd-udevd.service systemd-udev-trigger.service
Wants=systemd-udev-trigger.service
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/udevadm settle --timeout=5
ExecStart=/bin/systemctl --no-block daemon-reexec
[Install]
WantedBy=sysinit.target
"""


def why_not() -> str:
    """Why this machine cannot run test hosts; empty when it can."""
    if os.geteuid() != 0:
        return "test hosts need root"
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    if missing:
        return f"test hosts need {' '.join(missing)}; apt-get install {' '.join(missing)}"
    if not Path("/dev/loop-control").exists():
        return "test hosts need loop devices; this machine has no /dev/loop-control"
    if not debian_sources():  # apt tells nothing of mirrors whose lists it has not read
        subprocess.run(["apt-get", "-q", "update"], capture_output=True, check=False)
    return "" if debian_sources() else "test hosts are made from Debian 12's packages; apt knows no mirror of them here"


def base() -> Path:
    """The image's directory; made (about a minute) by the first process that asks for it."""
    HOSTS.mkdir(parents=True, exist_ok=True)
    with locked("base"):
        made_from = _PACKAGES + _UDEV_UNIT + inspect.getsource(_configure)
        path = HOSTS / f"base-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"
        if not path.exists():
            _make(path)
    return path


@contextmanager
def locked(name: str):
    """One process at a time, of all that test this checkout."""
    with open(HOSTS / f"{name}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def debian_sources() -> list[tuple[str, str]]:
    """(address, suite) of the Debian 12 mirrors that apt uses here."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    )
    pairs = {tuple(line.split()) for line in listed.stdout.splitlines()}
    return sorted((pair for pair in pairs if pair[1] in _RELEASES), key=lambda pair: _RELEASES.index(pair[1]))


def allowed_servers() -> list[str]:
    """Host names that apt and pip of this machine use: all that the test hosts' proxy lets through."""
    from pip._internal.models.index import PyPI

    asked = subprocess.run(["pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False)
    index = urlsplit(asked.stdout.strip() or PyPI.url).hostname
    return sorted({urlsplit(uri).hostname for uri, _ in debian_sources()} | {index, PyPI.file_storage_domain})


def _make(path: Path) -> None:
    remove_old("base-*")
    part = path.with_name(path.name.replace("base-", "part-"))
    shutil.rmtree(part, ignore_errors=True)
    mirror = debian_sources()[0][0]
    made = subprocess.run(
        ["mmdebstrap", "--quiet", "--dpkgopt=force-unsafe-io", "--variant=minbase", f"--include={_PACKAGES}",
         "bookworm", str(part), mirror],
        capture_output=True, text=True, check=False,
    )
    if made.returncode != 0:
        raise RuntimeError(f"Failed to make the test hosts' image: {made.stderr[-2000:]}")
    _configure(part)
    part.rename(path)


def remove_old(pattern: str) -> None:
    """But not from under a host that runs."""
    mounted = Path("/proc/mounts").read_text()
    for old in HOSTS.glob(pattern):
        if old.name not in mounted:
            shutil.rmtree(old)


def _configure(image: Path) -> None:
    if not KEY.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(KEY)], check=True)
    (image / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    shutil.copy(f"{KEY}.pub", image / "root/.ssh/authorized_keys")
    for package in (image / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()
    (image / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
    lines = [f"deb {uri} {suite} main\n" for uri, suite in debian_sources()]
    (image / "etc/apt/sources.list").write_text("".join(lines))
    (image / "etc/machine-id").write_text("")
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", image / "etc/ssl/certs/ca-certificates.crt")
    (image / "etc/pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")
    units = image / "etc/systemd/system"
    for timer in ("apt-daily.timer", "apt-daily-upgrade.timer"):
        (units / timer).symlink_to("/dev/null")
    (units / "testhost-udev.service").write_text(_UDEV_UNIT)
    (units / "sysinit.target.wants").mkdir(exist_ok=True)
    (units / "sysinit.target.wants/testhost-udev.service").symlink_to("../testhost-udev.service")
