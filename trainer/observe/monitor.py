"""Samples the machine while a run trains: a process of its own, whose death cannot hurt training."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

from trainer import lease
from trainer.observe import host
from trainer.observe.events import JsonLines
from trainer.observe.gpu import GpuReader, used_gpus
from trainer.observe.training_state import TrainingState
from trainer.run import PROJECT, Run

TRAINER_START_SECONDS = 60.0
# Beside a server: what took the trainer down, a GPU that is lost, is still seen. Less than the doctor looks back.
AFTER_SECONDS = 600.0
_POLL_SECONDS = 0.2


class MonitorRunningError(Exception):
    """Another monitor samples this run."""


def spawn_monitor(run: Run, after_seconds: float = 0.0) -> subprocess.Popen | None:
    """Starts the monitor of a run in a session of its own; a run without a monitor trains just as well."""
    command = [sys.executable, "-m", "trainer", "monitor", "--run", str(run.directory.resolve())]
    command += ["--after-seconds", f"{after_seconds:g}"] if after_seconds else []
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.Popen(command, cwd=PROJECT, start_new_session=True, **silent)
    except OSError as error:
        print(f"The machine's load will be missing from the report: cannot start the monitor: {error}", file=sys.stderr)
        return None


def lacks_sampler(run: Run) -> bool:
    """Whether somebody trains this run and nobody samples it."""
    if not _is_training(run):
        return False
    try:
        _lock(run).close()
        return True
    except MonitorRunningError:
        return False


def monitor(
    run: Run, interval_seconds: float, start_seconds: float = TRAINER_START_SECONDS, after_seconds: float = 0.0
) -> int:
    """Appends one sample an interval to samples.jsonl until the run's trainer is gone; how many it wrote.

    Waits up to `start_seconds` for a trainer to appear, and goes on for `after_seconds` without one while its own
    parent lives. Raises MonitorRunningError when there is a monitor already.
    A sample that could not be taken or written is passed over and counted in the next one's `missed`.
    """
    with closing(_Log(run)) as log:
        if not _wait_for_trainer(run, start_seconds):
            return 0
        return _sample_while_training(run, log, interval_seconds, after_seconds)


class _Log:
    """samples.jsonl, which this process alone writes."""

    def __init__(self, run: Run):
        self._run, self._lock, self._lines = run, _lock(run), None

    def write(self, **sample) -> None:
        """Into the file that has the name now: a trainer that resumes elsewhere brings another one from the mirror."""
        if not self._has_the_name():
            self.close()
            self._lock = _lock(self._run)
        self._lines = self._lines or JsonLines(self._run.samples)
        self._lines.write(**sample)

    def _has_the_name(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._run.samples), os.fstat(self._lock.fileno()))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._lines:
            self._lines.close()
        self._lock.close()
        self._lines = None


def _lock(run: Run):
    """The file, locked until it is closed."""
    file = open(run.samples, "ab")  # noqa: SIM115 (whoever asked closes it)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise MonitorRunningError(f"{run.name} has a monitor already.") from None
    return file


def _wait_for_trainer(run: Run, start_seconds: float) -> bool:
    deadline = time.monotonic() + start_seconds
    while not _is_training(run):
        if time.monotonic() >= deadline or not run.directory.is_dir():
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _is_training(run: Run) -> bool:
    try:
        return lease.holder(run) is not None
    except FileNotFoundError:  # the run's directory was removed meanwhile
        return False


def _sample_while_training(run: Run, log: _Log, interval_seconds: float, after_seconds: float) -> int:
    training, gpus = TrainingState(run), GpuReader(interval_seconds)
    before, written, missed = None, 0, 0
    due = time.monotonic()
    for trains in _while_wanted(run, after_seconds):
        # Whatever goes wrong with one sample (a counter that vanished, a full disk) must not end the sampling.
        try:
            after = host.read()
            if before is not None:
                log.write(
                    **training.sample() | ({} if trains else {"activity": "stopped"}),
                    **used_gpus(gpus.latest(), training.devices), **host.sample(before, after),
                    **({"missed": missed} if missed else {}),
                )
                written += 1
            before = after
        except MonitorRunningError:
            break
        except Exception:
            missed += 1
        due += interval_seconds
        time.sleep(max(due - time.monotonic(), 0))
    gpus.close()
    return written


def _while_wanted(run: Run, after_seconds: float) -> Iterator[bool]:
    """Whether the trainer lives, each time; ends `after_seconds` after it, or with this process's parent then."""
    parent, trained = os.getppid(), time.monotonic()
    while True:
        trains, now = _is_training(run), time.monotonic()
        trained = now if trains else trained
        if not trains and (now - trained >= after_seconds or os.getppid() != parent or not run.directory.is_dir()):
            return
        yield trains
