"""Training in this very process (many starts and stops for the price of their steps) and in processes of their own."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomli_w

from trainer.config import build
from trainer.learn import session
from trainer.observe import events
from trainer.run import Run
from trainer.spot.stop import StopRequest

FILES = ("weights.params", "optimizer.params", "statistics.params")
TIMES = ("train_seconds", "wall_seconds")


def configuration(recipe: dict, **changes):
    values = {key: value for key, value in (recipe | changes).items() if value is not None}
    return build(values, source="test", folder=Path("/"))


def train(recipe: dict, *, until_step=None, stop=None, report=None, **changes) -> str:
    """One start, with events in the run's events.jsonl; `report` hears them, too."""
    config = configuration(recipe, **changes)
    run = Run(config.run_directory)
    run.directory.mkdir(parents=True, exist_ok=True)
    log = events.event_writer(run.events)

    def both(kind, **fields):
        log(kind, **fields)
        if report:
            report(kind, **fields)

    return session.train(config, run, both, StopRequest() if stop is None else stop, until_step=until_step)


def write_config(recipe: dict, **changes) -> Run:
    """A run directory with this configuration."""
    values = {key: value for key, value in (recipe | changes).items() if value is not None}
    run = Run(Path(values["run_directory"]))
    run.directory.mkdir(parents=True, exist_ok=True)
    run.config.write_text(tomli_w.dumps(values))
    return run


def start(run: Run, *options: str, **pipes) -> subprocess.Popen:
    """A trainer of that run in a process of its own."""
    command = [sys.executable, "-m", "trainer", "train", "--config", str(run.config), *options]
    return subprocess.Popen(command, text=True, **pipes)


def until(condition, process: subprocess.Popen | None = None, seconds: float = 120):
    """What `condition` returns as soon as it is true; `process` must live meanwhile."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert process is None or process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


# Read off the processor, not asked of the trainer: one that refuses what it could do must fail.
needs_bfloat16 = pytest.mark.skipif(
    "avx512bw" not in Path("/proc/cpuinfo").read_text(), reason="MXNet computes in bfloat16 with AVX-512 only"
)


def of_kind(run: Run, kind: str) -> list[dict]:
    return [event for event in events.read(run.events) if event["kind"] == kind]


class StopAtLook(StopRequest):
    """Somebody asks at the n-th time that training looks, from when `counting` is true."""

    def __init__(self, looks: int, counting: bool = True):
        super().__init__()
        self._looks, self.counting = looks, counting

    def __bool__(self) -> bool:
        self._looks -= self.counting
        if self._looks == 0:
            self.ask("signal")
        return super().__bool__()
