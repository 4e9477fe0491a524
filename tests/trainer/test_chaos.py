"""SIGKILL at any moment, on one run: it ends with the weights of a run that nobody touched."""

import os
import random
import subprocess
import time
from collections import Counter
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

import psutil
import pytest
import training
from training import until

from trainer import checkpoint_files
from trainer.learn import checkpoint
from trainer.observe import events
from trainer.run import Run
from trainer.spot.rehearsal import last_step

START_SECONDS = 2.0
TRAIN_SECONDS = 0.3
SIGHT_SECONDS = 3.0
LEFT = {
    "LATEST", "checkpoints", "config.toml", "events.jsonl", "lease.json", "mirror.json", "mirror.lock", "report.html",
    "load.json", "report.json", "samples.jsonl",
}  # fmt: skip


class Chaos:
    """One run, its mirror, and ways to kill its trainer. Each waits for its moment, and returns when it has come."""

    def __init__(self, run: Run, mirror: Path, dice: random.Random):
        self.run, self.mirror, self.dice = run, mirror, dice
        self.found = Counter()
        self.aims = [
            self.while_writing, self.after_a_rename, self.while_mirroring, self.at_random, self.while_starting,
            self.the_mirror_itself, self.at_random,
        ]  # fmt: skip

    def kill_once(self, aim) -> None:
        self.started = time.time()
        with start(self.run) as process:
            try:
                aim(process)
                assert process.poll() is None, (aim.__name__, console(self.run))
            finally:
                process.kill()
        self._look_at_the_damage()

    def while_starting(self, process) -> None:
        time.sleep(self.dice.uniform(0, START_SECONDS))

    def at_random(self, process) -> None:
        until(self._trains, process)
        time.sleep(self.dice.uniform(0, TRAIN_SECONDS))

    def while_writing(self, process) -> None:
        until(self._trains, process)
        self._sight(self._is_writing)

    def after_a_rename(self, process) -> None:
        """Before LATEST names it."""
        until(self._trains, process)
        self._sight(self._is_renamed)

    def while_mirroring(self, process) -> None:
        until(self._trains, process)
        self._sight(self._is_mirroring)

    def the_mirror_itself(self, process) -> None:
        self.while_mirroring(process)
        for child in psutil.Process(process.pid).children():
            with suppress(psutil.Error):  # one that has ended
                if "mirror" in child.cmdline():
                    child.kill()
                    self.found["mirror killed while mirroring"] += self._is_mirroring()
        self.at_random(process)

    def _look_at_the_damage(self) -> None:
        for what in (self._is_writing, self._is_renamed, self._is_mirroring):
            self.found[what.__name__] += what()

    def _trains(self) -> bool:
        return last_step(self.run, since=self.started) is not None

    def _is_writing(self) -> bool:
        return any(self.run.checkpoints.glob("*.unfinished"))

    def _is_mirroring(self) -> bool:
        return any(self.mirror.glob("*/checkpoints/*/.*.draft"))

    def _is_renamed(self) -> bool:
        names = [path.name for path in self.run.checkpoints.glob("*") if path.suffix != ".unfinished"]
        latest = self.run.latest.read_text().strip() if self.run.latest.exists() else ""
        return max(names, default="") > latest

    def _sight(self, condition) -> None:
        """A moment may be too short to be seen on a busy machine: then it is a random one."""
        deadline = time.monotonic() + SIGHT_SECONDS
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.0005)


def start(run: Run, *options: str) -> subprocess.Popen:
    with open(run.directory.with_suffix(".txt"), "ab") as text:
        return training.start(run, *options, stdout=text, stderr=text)


def console(run: Run) -> str:
    return run.directory.with_suffix(".txt").read_text()[-3000:]


@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_weights(tiny_recipe, tmp_path, kills):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    recipe = tiny_recipe | {"epochs": 100_000, "display_steps": 1, "augmentation": "pad", "batch_size": 8}
    run = training.write_config(
        recipe, checkpoint_interval=0.05, checkpoint_mirror=f"file://{mirror}", checkpoint_mirror_mb_per_second=1.5
    )
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chaos = Chaos(run, mirror, random.Random(seed))
    for aim in islice(cycle(chaos.aims), kills):
        chaos.kill_once(aim)
        assert_nothing_half_written(run)
    print(dict(chaos.found))
    assert all(chaos.found.values()) if kills >= 100 else any(chaos.found.values())
    goal = last_step(run) + 10
    with start(run, "--until-step", str(goal)) as process:
        assert process.wait(timeout=600) == 0, console(run)
    assert_nothing_was_lost_that_was_on_disk(run)
    assert_no_leftovers(run, mirror)
    untouched = Run(tmp_path / "run" / "untouched")
    training.train(recipe, run_directory=str(untouched.directory), until_step=goal)
    assert sums(checkpoint.newest(run)) == sums(checkpoint.newest(untouched))
    assert sums(newest_mirrored(mirror / run.name)) == sums(checkpoint.newest(untouched))


def assert_nothing_half_written(run: Run) -> None:
    whole, wrong = checkpoint.survey(run)
    assert not wrong
    assert whole or not run.latest.exists()


def assert_nothing_was_lost_that_was_on_disk(run: Run) -> None:
    on_disk = 0
    for event in events.read(run.events):
        if event["kind"] == "checkpoint":
            on_disk = event["step"]
        if event["kind"] == "start":
            assert event["rejected"] == []
            assert event["resumed_step"] >= on_disk


def assert_no_leftovers(run: Run, mirror: Path) -> None:
    assert set(os.listdir(run.directory)) <= LEFT
    kept = 2 + 1  # and the best
    assert len(os.listdir(run.checkpoints)) <= kept
    assert set(os.listdir(mirror)) == {run.name}
    assert not list(mirror.glob("**/*.draft"))
    assert len(os.listdir(mirror / run.name / "checkpoints")) <= kept


def sums(path: Path) -> dict:
    sums = checkpoint_files.checksums(path)
    return {name: digest for name, digest in sums.items() if name.endswith(".params")}


def newest_mirrored(place: Path) -> Path:
    return max((place / "checkpoints").iterdir(), key=lambda path: checkpoint.read_state(path)["progress"]["step"])
