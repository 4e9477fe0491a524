"""Samples the machine while a run trains: a process of its own, whose death cannot hurt training."""

import fcntl
import subprocess
import sys
import time
from contextlib import contextmanager

from trainer import lease
from trainer.observe import host
from trainer.observe.events import JsonLines
from trainer.observe.gpu import GpuReader, used_gpus
from trainer.observe.training_state import TrainingState
from trainer.run import PROJECT, Run

TRAINER_START_SECONDS = 60.0
_POLL_SECONDS = 0.2


class MonitorRunningError(Exception):
    """Another monitor samples this run."""


def spawn_monitor(run: Run) -> None:
    """Starts the monitor of a run in a session of its own; a run without a monitor trains just as well."""
    command = [sys.executable, "-m", "trainer", "monitor", "--run", str(run.directory.resolve())]
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        subprocess.Popen(command, cwd=PROJECT, start_new_session=True, **silent)
    except OSError as error:
        print(f"The machine's load will be missing from the report: cannot start the monitor: {error}", file=sys.stderr)


def monitor(run: Run, interval_seconds: float, start_seconds: float = TRAINER_START_SECONDS) -> int:
    """Appends one sample an interval to samples.jsonl until the run's trainer is gone; how many it wrote.

    Waits up to `start_seconds` for a trainer to appear. Raises MonitorRunningError when there is a monitor already.
    A sample that could not be taken or written is passed over and counted in the next one's `missed`.
    """
    with _only_monitor(run):
        if not _wait_for_trainer(run, start_seconds):
            return 0
        return _sample_while_training(run, interval_seconds)


@contextmanager
def _only_monitor(run: Run):
    with open(run.samples, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MonitorRunningError(f"{run.name} has a monitor already.") from None
        yield


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


def _sample_while_training(run: Run, interval_seconds: float) -> int:
    lines, training = JsonLines(run.samples), TrainingState(run)
    gpus = GpuReader(interval_seconds)
    before, written, missed = None, 0, 0
    due = time.monotonic()
    while _is_training(run):
        # Whatever goes wrong with one sample (a counter that vanished, a full disk) must not end the sampling.
        try:
            after = host.read()
            if before is not None:
                lines.write(
                    **training.sample(), **used_gpus(gpus.latest(), training.devices), **host.sample(before, after),
                    **({"missed": missed} if missed else {}),
                )
                written += 1
            before = after
        except Exception:
            missed += 1
        due += interval_seconds
        time.sleep(max(due - time.monotonic(), 0))
    gpus.close()
    lines.close()
    return written
