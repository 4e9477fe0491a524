"""Test hosts: Debian 12 with systemd as PID 1 in systemd-nspawn, an address of its own, disks, reboots.

A host is a clone of the image (an overlay), boots in about a second and is reached by ssh. It reaches this machine and,
through a filtered proxy, the package mirrors; nothing else.
"""

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from image import HOSTS, KEY, PROXY_PORT
from network import call, connect, disconnect

NETWORK = "198.51.100"  # TEST-NET-2: leads nowhere outside
RUNNING = HOSTS / "running"
LEASES = Path("/var/tmp")  # of all checkouts; it outlives this machine's boots, as RUNNING does
DISKS = 4  # block devices a host can have attached; they are bound when it boots
_BY_ID = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"
_LOOP_ADD, _LOOP_REMOVE = 0x4C80, 0x4C81
_SSH = (
    "ssh", "-i", str(KEY), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
    "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=2",
)


@dataclass
class Host:
    """One host that runs. `number` makes its name, its two addresses and its block devices its own."""

    number: int
    disks: list[str | None] = field(default_factory=lambda: [None] * DISKS)  # volume ids
    process: subprocess.Popen | None = None

    @property
    def name(self) -> str:
        return f"testhost-{self.number}"

    @property
    def address(self) -> str:
        return f"{NETWORK}.{2 * self.number + 1}"

    @property
    def gateway(self) -> str:
        """This machine's end of the cable; the proxy listens here."""
        return f"{NETWORK}.{2 * self.number}"

    @property
    def directory(self) -> Path:
        return RUNNING / self.name

    @property
    def lease(self) -> Path:
        """A link to no file: it says of which folder of hosts, and of which process, the host is."""
        return LEASES / self.name

    @property
    def root(self) -> Path:
        """The host's file system as this machine sees it."""
        return self.directory / "root"

    def loop(self, index: int) -> str:
        return f"/dev/loop{1000 + DISKS * self.number + index}"

    def run(self, command: str, check: bool = True, timeout_seconds: float = 120) -> subprocess.CompletedProcess:
        """A shell command in the host, as root. A byte that is no text (the journal has some) is shown as one."""
        done = subprocess.run(
            [*_SSH, f"root@{self.address}", command], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
            errors="backslashreplace", timeout=timeout_seconds, check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {command}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def read(self, command: str) -> str:
        return self.run(command).stdout.strip()

    def attach(self, volume_id: str, image: Path, xen_letter: str = "") -> str:
        """The image as a disk: named by volume id as on Nitro, or /dev/xvd? as on Xen. Returns the name."""
        index = self.disks.index(None)
        subprocess.run(["losetup", self.loop(index), str(image)], check=True)
        self.disks[index] = volume_id
        name = f"/dev/xvd{xen_letter}" if xen_letter else _BY_ID + volume_id.replace("-", "")
        rule = f'KERNEL=="{Path(self.loop(index)).name}", SYMLINK+="{name.removeprefix("/dev/")}"\n'
        self.run(f"printf %s {shlex.quote(rule)} > {_rules(index)}")
        self._settle(index)
        return name

    def detach(self, volume_id: str) -> None:
        index = self.disks.index(volume_id)
        self.run(f"rm {_rules(index)}")
        subprocess.run(["losetup", "-d", self.loop(index)], check=True)
        self.disks[index] = None
        self._settle(index)

    def enlarge(self, volume_id: str, mebibytes: int) -> None:
        loop = self.loop(self.disks.index(volume_id))
        os.truncate(call("losetup", "-n", "-O", "BACK-FILE", loop).strip(), mebibytes << 20)
        call("losetup", "-c", loop)

    def _settle(self, index: int) -> None:
        self.run(f"udevadm control --reload; udevadm trigger --settle --action=change {self.loop(index)}", check=False)

    def reboot(self) -> None:
        before = self._started()
        self.run("systemctl reboot", check=False)
        wait(lambda: self._started() not in ("", before), 60, f"{self.name} to boot again")

    def _started(self) -> str:
        """When PID 1 started: the kernel and its boot id are this machine's and tell nothing."""
        return self.run("cut -d ' ' -f 22 /proc/1/stat", check=False).stdout.strip()


def _rules(index: int) -> str:
    return f"/etc/udev/rules.d/61-disk{index}.rules"


def wait(condition, limit_seconds: float, what: str) -> None:
    deadline = time.monotonic() + limit_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {limit_seconds} s for {what}")
        time.sleep(0.05)


def up(layers: list[Path], before_boot: Callable[[Host], None] = lambda host: None) -> Host:
    """Boots a clone of the layers (the uppermost first) and returns when ssh answers."""
    host = _with_own_number()
    try:
        _prepare(host, layers)
        before_boot(host)
        _boot(host)
    except BaseException:
        down(host)
        raise
    return host


def _prepare(host: Host, layers: list[Path]) -> None:
    host.directory.mkdir()
    for name in ("upper", "work", "root"):
        (host.directory / name).mkdir()
    lower = ":".join(map(str, layers))
    options = f"lowerdir={lower},upperdir={host.directory}/upper,workdir={host.directory}/work"
    call("mount", "-t", "overlay", "overlay", "-o", options, str(host.root))
    connect(host)
    _configure(host)
    _make_loops(host, _LOOP_ADD)


def _boot(host: Host) -> None:
    with open(host.directory / "console.log", "a") as log:
        host.process = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", str(Path(__file__).with_name("boot.sh")), host.name,
             str(host.root), *(f"--bind={host.loop(index)}" for index in range(DISKS))],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )
    (host.directory / "pid").write_text(str(host.process.pid))
    wait(lambda: host.run("true", check=False).returncode == 0, 60, f"ssh of {host.name}")


def down(host: Host, keep_upper: Path | None = None) -> None:
    """Powers the host off and removes all that it had; its changes become a layer when told where."""
    pid = _number(host.directory / "pid")
    if pid and _is_of(host, pid):
        host.run("systemctl poweroff", check=False)
        if not _gone(pid, 20):
            kill(host)
    if host.process:
        host.process.wait()
    if (proxy := _number(host.directory / "proxy.pid")) and _is_of(host, proxy):
        os.kill(proxy, signal.SIGTERM)
    for index in range(DISKS):
        subprocess.run(["losetup", "-d", host.loop(index)], capture_output=True, check=False)
    _make_loops(host, _LOOP_REMOVE)
    subprocess.run(["umount", str(host.root)], capture_output=True, check=False)
    if keep_upper:
        shutil.rmtree(host.directory / "upper/tmp", ignore_errors=True)
        (host.directory / "upper").rename(keep_upper)
    shutil.rmtree(host.directory, ignore_errors=True)
    disconnect(host)
    host.lease.unlink(missing_ok=True)  # last: nothing is left, and the number is anybody's


def kill(host: Host) -> None:
    """As a power cut does: no process of the host gets to do anything. `down` then removes what it had."""
    os.killpg(_number(host.directory / "pid"), signal.SIGKILL)  # first, or it would boot the host again
    inside = call("ip", "netns", "pids", host.name).split()  # its PID 1 outlives nspawn
    for pid in map(int, inside):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait(lambda: not any(map(_alive, map(int, inside))), 20, f"the processes of {host.name} to end")


def sweep() -> list[Host]:
    """Takes down the hosts of this checkout's test runs that were killed. Returns those of runs that live."""
    for lease in sorted(LEASES.glob("testhost-*")):
        host = _ours(lease)  # read at its turn: another sweep may have given the number away meanwhile
        if host and not _alive(_holder(host) or os.getpid()):
            down(host)
    return [host for host in map(_ours, LEASES.glob("testhost-*")) if host]


def _ours(lease: Path) -> Host | None:
    """The host, if it is one of this checkout's."""
    with suppress(OSError, ValueError):  # it ended just now, or is something else
        if lease.readlink().parent == RUNNING:
            return Host(int(lease.name.removeprefix("testhost-")))
    return None


def _holder(host: Host) -> int:
    """The process whose it is; 0 when it ended just now."""
    with suppress(OSError):
        return int(host.lease.readlink().name)
    return 0


def _with_own_number() -> Host:
    """The lease is there at once with all that it says, and to one only: its holder may die at any moment."""
    RUNNING.mkdir(parents=True, exist_ok=True)
    for number in range(1, 127):
        host = Host(number)
        try:
            host.lease.symlink_to(RUNNING / str(os.getpid()))
        except FileExistsError:
            continue
        if subprocess.run(["ip", "netns", "add", host.name], capture_output=True, check=False).returncode == 0:
            return host
        host.lease.unlink()  # somebody else's name space
    raise RuntimeError("126 test hosts run already")


def _configure(host: Host) -> None:
    etc = host.root / "etc"
    proxy = f"http://{host.gateway}:{PROXY_PORT}"
    (etc / "hostname").write_text(f"{host.name}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost {host.name}\n")
    direct = f"127.0.0.1,localhost,.invalid,{host.gateway}"
    (etc / "environment").write_text(f"http_proxy={proxy}\nhttps_proxy={proxy}\nno_proxy={direct}\n")
    (etc / "apt/apt.conf.d/00testhost").write_text(
        f'Acquire::http::Proxy "{proxy}";\nAcquire::https::Proxy "{proxy}";\nAcquire::Languages "none";\n'
        'DPkg::Options { "--force-unsafe-io"; };\n'
    )


def _make_loops(host: Host, request: int) -> None:
    control = os.open("/dev/loop-control", os.O_RDWR)
    for index in range(DISKS):
        try:
            fcntl.ioctl(control, request, int(host.loop(index).removeprefix("/dev/loop")))
        except OSError:  # there already, or gone already
            continue
    os.close(control)


def _gone(pid: int, limit_seconds: float) -> bool:
    try:
        wait(lambda: not _alive(pid), limit_seconds, f"process {pid} to end")
    except TimeoutError:
        return False
    return True


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _is_of(host: Host, pid: int) -> bool:
    """Whether that is still the host's process: a number that was written down may be another's by now."""
    try:
        return _alive(pid) and host.name in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
