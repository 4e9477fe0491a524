"""One trainer a run: the holder's name in lease.json, and a lock on that file that ends with its process."""

import fcntl
import json
import os
import socket
import time
from contextlib import contextmanager

from trainer.errors import ConfigError
from trainer.run import Run

# Whoever asks `holder` takes the lock for an instant: an unlucky trainer tries again for this long.
PATIENCE_SECONDS = 2.0


@contextmanager
def hold(run: Run):
    """Holds the run for this process; ConfigError when another process has it."""
    with open(run.lease, "a+") as file:
        _lock(file, run)
        file.seek(0)
        file.truncate()
        json.dump({"host": socket.gethostname(), "pid": os.getpid(), "started": time.time()}, file)
        file.flush()
        yield


def holder(run: Run) -> dict | None:
    """`{host, pid, started}` of the process that trains this run now; None when nobody does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _is_held(run):
        found = _read(run.lease.read_text())
        if found or time.monotonic() > deadline:
            return found or None
        time.sleep(0.01)  # the holder writes its name this very moment
    return None


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
                file.seek(0)
                other = _read(file.read())
                raise ConfigError(
                    f"{run.directory}: must be trained by one process at a time, got a second; "
                    f"process {other.get('pid')} on {other.get('host')} has it"
                ) from None
            time.sleep(0.05)


def _read(text: str) -> dict:
    try:
        return json.loads(text)
    except ValueError:
        return {}
