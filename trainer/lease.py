"""One trainer a run: its name and heartbeat in lease.json, and a lock on that file that ends with its process.

On one machine the lock alone decides. A file system that several machines share may not carry a lock from one to the
other: there, a lease of another machine (or of another boot of this one) counts while its heartbeat moves. No clocks
are compared.
"""

import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress

from trainer.errors import ConfigError, DiskError
from trainer.machine import boot_id, memory_kills
from trainer.observe.words import duration
from trainer.run import Run

# Whoever asks `holder` takes the lock for an instant: an unlucky trainer tries again for this long.
PATIENCE_SECONDS = 2.0
HEARTBEAT_SECONDS = 5.0
# Three beats may fail or come late (a disk that hangs for a while) before a trainer elsewhere counts as gone.
GONE_SECONDS = 20.0
_LOOK_SECONDS = 0.5

# Each beat overwrites the one before in place, which needs no space on a full disk.
_LENGTH = 512


@contextmanager
def hold(run: Run, say: Callable[[str], None] = lambda line: None):
    """Holds the run for this process and gives `last` as the holder before left it.

    ConfigError when another process has it. say(line): told when a trainer elsewhere has to be watched for signs of
    life.
    """
    with open(os.open(run.lease, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0) as file:
        _lock(file, run)
        before = last(run)
        _refuse_living(run, before, say)
        owner = {"host": socket.gethostname(), "boot_id": boot_id(), "pid": os.getpid(), "started": time.time()}
        try:
            _write(file, owner)
        except OSError as error:
            raise DiskError(f"{run.lease}: cannot be written: {error.strerror}") from error
        over = threading.Event()
        heart = threading.Thread(target=_beat, args=(run, file, owner, over), name="heartbeat", daemon=True)
        heart.start()
        try:
            yield before
        finally:
            over.set()
            heart.join()
            if still_ours(run):
                with suppress(OSError):
                    _write(file, owner, ended=True)


def holder(run: Run) -> dict | None:
    """`last` of the process of this machine that trains this run now; None when nobody does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _is_held(run):
        found = last(run)
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.01)  # the holder writes its name this very moment
    return None


def last(run: Run) -> dict | None:
    """What the newest holder wrote at its last sign of life; None when there was none or it cannot be read.

    host, boot_id, pid, started: who it is. heartbeat: unix seconds. memory_kills: see `trainer.machine`. ended: whether
    it ended in order.
    """
    try:
        found = json.loads(run.lease.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "pid" in found else None


def still_ours(run: Run) -> bool:
    """Whether this process may write into the run: nobody else has taken it over meanwhile. One read of lease.json."""
    now = last(run)
    return now is None or (now["pid"], now.get("boot_id")) == (os.getpid(), boot_id())


def elsewhere(run: Run) -> dict | None:
    """`last` of a trainer of another machine (or another boot of this one) that did not end in order.

    No lock of this machine tells whether it lives.
    """
    found = last(run)
    return found if found and not found.get("ended") and found.get("boot_id") not in (None, boot_id()) else None


def words(other: dict) -> str:
    """What `elsewhere` found."""
    ago = duration(max(time.time() - other.get("heartbeat", 0), 0))
    return f"it is or was trained on {other.get('host')}, whose last sign of life came {ago} ago"


def _write(file, owner: dict, ended: bool = False) -> None:
    record = {**owner, "heartbeat": time.time(), "memory_kills": memory_kills(), "ended": ended}
    os.pwrite(file.fileno(), json.dumps(record).encode().ljust(_LENGTH - 1) + b"\n", 0)
    os.ftruncate(file.fileno(), _LENGTH)
    os.fdatasync(file.fileno())


def _beat(run: Run, file, owner: dict, over: threading.Event) -> None:
    """Ends the process when another machine has taken the run: two must never write it."""
    while not over.wait(HEARTBEAT_SECONDS):
        if not still_ours(run):
            now = last(run) or {}
            print(
                f"error: {run.directory}: must be trained by one process at a time; process {now.get('pid')} on "
                f"{now.get('host')} has taken it over from this one, which had given no sign of life",
                file=sys.stderr, flush=True,
            )
            os._exit(ConfigError.exit_code)
        with suppress(OSError):  # a full or broken disk
            _write(file, owner)


def _refuse_living(run: Run, before: dict | None, say) -> None:
    """Watches the heartbeat of a trainer that this machine's lock says nothing about."""
    if elsewhere(run) is None:
        return
    who = f"process {before['pid']} on {before.get('host')}"
    say(f"{who} had this run and did not end in order; watching for {GONE_SECONDS:g} s whether it lives")
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        now = last(run)
        if now and now.get("heartbeat") != before.get("heartbeat"):
            raise ConfigError(_refusal(run, now))
    say(f"{who} gives no sign of life; this process takes the run over")


def _is_held(run: Run) -> bool:
    try:
        with open(run.lease) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _lock(file, run: Run) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(_refusal(run, last(run) or {})) from None
            time.sleep(0.05)


def _refusal(run: Run, other: dict) -> str:
    return (
        f"{run.directory}: must be trained by one process at a time, got a second; "
        f"process {other.get('pid')} on {other.get('host')} has it"
    )
