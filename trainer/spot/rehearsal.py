"""A copy of a run, trained in processes of its own, and interrupted as spot machines are."""

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainer.config import Config
from trainer.errors import TrainerError
from trainer.observe import events
from trainer.run import PROJECT, Run
from trainer.spot.practice import Practice, serving

# Short, so that few seconds of training hold several checkpoints.
CHECKPOINT_SECONDS = 3.0
# A kill comes within this after the first step: before, in and after saves.
KILL_WITHIN_SECONDS = 6.0
_LOOK_SECONDS = 0.05
_SHOW_SECONDS = 3.0
_WEIGHTS = ("weights.params", "optimizer.params", "statistics.params")
# `python -m trainer`, which the kernel ends together with its parent (PR_SET_PDEATHSIG): a killed drill leaves none.
_TRAINER = (
    "import ctypes, runpy; ctypes.CDLL(None).prctl(1, 9); "
    "runpy.run_module('trainer', run_name='__main__', alter_sys=True)"
)

Say = Callable[[str], None]


class TooShortError(Exception):
    """The training was over before it could be interrupted."""


@dataclass
class Copy:
    """A run in a folder of its own, which starts where the other run's checkpoint is."""

    run: Run
    config: Config
    say: Say
    interruptions: list[dict] = field(default_factory=list)

    def train_until(self, step: int) -> None:
        """Trains on until that step is done, or the run's last."""
        with _training(self, None, "--until-step", str(step)) as process:
            self._wait(process, lambda: process.poll() is not None)

    def give_notice(self) -> None:
        """Trains until the metadata service says that the machine will be taken away; the trainer must save and end."""
        with serving(Practice()) as practice, _training(self, practice.url) as process:
            self._wait_for_a_step(process)
            at = time.time()
            practice.give_notice()
            self._wait(process, lambda: process.poll() is not None)
        stop, checkpoint = (events.newest(self.run.events, kind) for kind in ("stop", "checkpoint"))
        if stop is None or stop["reason"] != "notice":
            raise TooShortError
        self.interruptions.append({
            "kind": "notice", "t": at, "step": stop["step"],
            "notice_to_durable_seconds": round(max(checkpoint["t"] - at, 0.0), 2),
        })  # fmt: skip

    def kill(self) -> None:
        """Trains on and ends the process with SIGKILL at a random moment."""
        with _training(self, None) as process:
            self._wait_for_a_step(process)
            at = time.monotonic() + random.uniform(0, KILL_WITHIN_SECONDS)
            self._wait(process, lambda: time.monotonic() >= at or process.poll() is not None)
            if process.poll() is not None:
                raise TooShortError
            process.kill()
            killed = time.time()
        self.interruptions.append({"kind": "kill", "t": killed, "step": last_step(self.run)})

    def weights(self) -> dict[str, str]:
        """SHA-256 of the newest checkpoint's arrays, by file."""
        newest = self.run.checkpoints / self.run.latest.read_text().strip()
        sums = json.loads((newest / "checksums.json").read_text())
        return {name: sums[name] for name in _WEIGHTS}

    def outcomes(self) -> list[dict]:
        """What each interruption cost: see `trainer.commands.drill`."""
        log = list(events.read(self.run.events))
        return [outcome(interruption, log, self.config.batch_size) for interruption in self.interruptions]

    def _wait_for_a_step(self, process: subprocess.Popen) -> None:
        started = time.time()
        self._wait(process, lambda: last_step(self.run, since=started) is not None or process.poll() is not None)
        if process.poll() is not None:
            raise TooShortError

    def _wait(self, process: subprocess.Popen, done: Callable[[], bool]) -> None:
        shown = time.monotonic()
        while not done():
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - shown >= _SHOW_SECONDS:
                shown = time.monotonic()
                self.say(f"  step {last_step(self.run) or 0:,}")
        if process.poll():
            lines = _console(self.run).read_text(errors="replace").splitlines()
            raise TrainerError(
                f"the copy of the run could not be trained (exit code {process.returncode}): {' / '.join(lines[-5:])}"
            )


def copy_of(config: Config, checkpoint: Path | None, folder: Path, say: Say) -> Copy:
    """A copy in `folder`. Nothing outside of it is written: no mirror, no files of `model_prefix`."""
    copy = Run(folder)
    copy.checkpoints.mkdir(parents=True)
    if checkpoint:
        shutil.copytree(checkpoint, copy.checkpoints / checkpoint.name)
        copy.latest.write_text(checkpoint.name + "\n")
    changes = {
        "run_directory": folder, "display_steps": 1, "checkpoint_interval": CHECKPOINT_SECONDS,
        "checkpoint_mirror": None, "checkpoint_mirror_mb_per_second": None, "imds_url": None, "model_prefix": None,
    }  # fmt: skip
    if config.load_epoch is not None:
        start = config.model_prefix.with_name(f"{config.model_prefix.name}-{config.load_epoch:04d}.params")
        changes["model_prefix"] = folder / "prefix"
        if start.exists():
            (folder / f"prefix-{config.load_epoch:04d}.params").symlink_to(start)
    return Copy(copy, config.model_copy(update=changes), say)


@contextmanager
def _training(copy: Copy, imds_url: str | None, *options: str) -> Iterator[subprocess.Popen]:
    """`train` on the copy; it ends when the block does, or this process."""
    copy.run.config.write_text(copy.config.model_copy(update={"imds_url": imds_url}).to_toml())
    command = [sys.executable, "-c", _TRAINER, "train", "--config", str(copy.run.config), *options]
    with open(_console(copy.run), "ab") as console:
        process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _console(run: Run) -> Path:
    return run.directory / "console.txt"


def last_step(run: Run, since: float = 0.0) -> int | None:
    """The step of the newest `step` event after `since` (unix seconds)."""
    event = events.newest(run.events, "step")
    return event["step"] if event and event["t"] >= since else None


def outcome(interruption: dict, log: list[dict], batch_size: int) -> dict:
    """What an interruption of a copy cost, by the copy's events: see `trainer.commands.drill`. TooShortError."""
    after = [event for event in log if event["t"] > interruption["t"]]
    resumed = next(event for event in after if event["kind"] == "start")
    steps = [event for event in after if event["kind"] == "step" and event["t"] >= resumed["t"]]
    if not steps:
        raise TooShortError
    regained = next((event for event in steps if event["step"] > interruption["step"]), steps[-1])
    began = interruption["t"]
    if interruption["kind"] == "notice":  # it trained on until it ended
        began = max(event["t"] for event in log if event["kind"] == "stop" and event["t"] < resumed["t"])
    return {
        **interruption,
        "resumed_step": resumed["resumed_step"],
        "images_twice": max(interruption["step"] - resumed["resumed_step"], 0) * batch_size,
        "seconds_to_next_step": round(steps[0]["t"] - began, 2),
        "seconds_lost": round(regained["t"] - began, 2),
    }
