"""The trainer's side of the mirror: starts its process, minds it, waits for it at a stop. Imports no boto3."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from trainer.config import Config
from trainer.errors import DataError, DiskError
from trainer.run import PROJECT, Run

POLL_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 60.0
# A wait longer than this is announced.
QUIET_WAIT_SECONDS = 1.0
# What the last look may take after training has ended: the logs. The process goes on by itself after that.
LAST_LOOK_SECONDS = 10.0


@contextmanager
def running(run: Run, config: Config, report: Callable) -> Iterator["Mirror | None"]:
    """The run's mirror while the block lasts; None without `checkpoint_mirror`. `report` hears how it goes."""
    if config.checkpoint_mirror is None:
        yield None
        return
    mirror = Mirror(run, report)
    try:
        yield mirror
    finally:
        mirror.end()


class Mirror:
    """A process that mirrors a run. It is started again when it dies; whatever it does, training goes on."""

    def __init__(self, run: Run, report: Callable):
        self._run, self._report = run, report
        self._id = uuid.uuid4().hex
        self._over = threading.Event()
        self._process = None
        self._deaths, self._due = 0, 0.0
        self._told, self._stale, self._hurried = (True, None), None, 0.0
        self._lock, self._telling = threading.Lock(), threading.Lock()
        self._thread = threading.Thread(target=self._mind, name="mirror", daemon=True)
        self._thread.start()

    def state(self) -> dict | None:
        """What this trainer's mirror process last wrote to mirror.json (see trainer/spot/follow.py)."""
        try:
            values = json.loads(self._run.mirror_state.read_text())
        except (OSError, ValueError):
            return None
        return values if isinstance(values, dict) and values.get("owner") == self._id else None

    def wait_for(self, checkpoint_name: str, deadline_monotonic: float) -> bool:
        """Whether that checkpoint is in the second place, now or before the deadline."""
        announced, announce_at = False, time.monotonic() + QUIET_WAIT_SECONDS
        while not self._has(checkpoint_name):
            left = deadline_monotonic - time.monotonic()
            if left <= 0 or (self.state() or {}).get("given_up"):
                return False
            if not announced and time.monotonic() >= announce_at:
                announced = True
                self._report("mirror_wait", checkpoint=checkpoint_name, seconds=round(left, 1))
            self._hurry()
            time.sleep(min(POLL_SECONDS, left))
        self._tell(self.state() or {})  # before the caller reports that it stops
        return True

    def end(self) -> None:
        """Lets the process send the logs once more and end; it does so by itself, however long it takes."""
        self._over.set()
        self._thread.join(LAST_LOOK_SECONDS)
        with self._lock:
            if self._process is None:
                return
            with suppress(OSError):
                self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST_LOOK_SECONDS)

    def _has(self, checkpoint_name: str) -> bool:
        return (self.state() or {}).get("checkpoint") == checkpoint_name

    def _hurry(self) -> None:
        """At most once a second: each line ends the process's pause between two tries."""
        if time.monotonic() - self._hurried < 1:
            return
        self._hurried = time.monotonic()
        with self._lock, suppress(OSError):
            self._due = 0.0
            if self._process is not None:
                self._process.stdin.write(b"\n")

    def _mind(self) -> None:
        while not self._over.is_set():
            with self._lock:
                self._keep_alive()
            self._tell(self.state() or {})
            self._over.wait(POLL_SECONDS)
        self._tell(self.state() or {})

    def _keep_alive(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self._lost(f"the mirror process ended with {self._process.returncode}")
        if self._process is None and time.monotonic() >= self._due:
            try:
                self._process = _start("--run", str(self._run.directory.absolute()), "--owner", self._id)
            except OSError as error:
                self._lost(f"the mirror process cannot be started: {error}")

    def _lost(self, reason: str) -> None:
        self._process = None
        self._deaths += 1
        self._due = time.monotonic() + min(2.0 ** (self._deaths - 1), LONGEST_PAUSE_SECONDS)
        state = self.state() or {}
        self._stale = state.get("t")
        self._say(state | {"error": reason})

    def _tell(self, state: dict) -> None:
        """What a process wrote that has died since says nothing about the next one."""
        if state and state.get("t") != self._stale:
            self._say(state)

    def _say(self, state: dict) -> None:
        now = (state.get("error") is None, state.get("checkpoint"))
        with self._telling:
            if now == self._told:
                return
            self._told = now
        fields = {key: state.get(key) for key in ("checkpoint", "step", "seconds", "bytes")}
        failures = state.get("failures_total", 0) + self._deaths
        with suppress(DiskError):
            self._report("mirror", ok=now[0], failures=failures, reason=state.get("error"), **fields)


def fetch(run: Run, config: Config, say: Callable[[str], None], stop) -> None:
    """Before training: brings a newer checkpoint from the second place; returns early when somebody asks to stop.

    DiskError or DataError when training must not begin without it.
    """
    if config.checkpoint_mirror is None:
        return
    options = ("--run", str(run.directory.absolute()), "--fetch", "--owner", "trainer")
    process = _start(*options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        teller = threading.Thread(target=lambda: [say(line.decode().rstrip()) for line in process.stdout], daemon=True)
        teller.start()
        while process.poll() is None and not stop:
            time.sleep(POLL_SECONDS / 4)
        if stop:
            process.kill()
        teller.join()
        if stop:
            return
        if process.returncode:
            told = process.stderr.read().decode(errors="replace").splitlines()
            wrong = "\n".join(line.removeprefix("error: ") for line in told)
            kind = DataError if process.returncode == DataError.exit_code else DiskError
            raise kind(wrong or f"bringing checkpoints from the mirror ended with {process.returncode}; try again")


def _start(*options: str, **pipes) -> subprocess.Popen:
    """In a session of its own: a terminal's Ctrl-C is for the trainer."""
    command = [sys.executable, "-m", "trainer", "mirror", *options]
    silent = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=PROJECT, start_new_session=True, bufsize=0, **(silent | pipes))
