"""Run directories with checkpoints that no training wrote, and what the mirror of them holds."""

import functools
import hashlib
import json
import os
import time
from pathlib import Path

from trainer.config import Config, build
from trainer.run import Run
from trainer.spot import owner
from trainer.spot.follow import Follower
from trainer.spot.orders import Orders
from trainer.spot.place import place_of

# Of the tests' own looks at the second place; a client of S3 takes a while to make.
there = functools.cache(place_of)

PATIENCE_SECONDS = 60


def make_run(folder: Path, name: str = "tiny", **config) -> tuple[Run, Config]:
    run = Run(folder / name)
    run.directory.mkdir(parents=True)
    values = {
        "run_directory": str(run.directory), "data_train": "train.rec", "num_classes": 2, "epochs": 1, "batch_size": 1,
        "num_layers": 50, "learning_rate": 0.1, "warmup_epochs": 0, **config,
    }
    made = build(values, source="test", folder=folder)
    run.config.write_text(made.to_toml())
    run.events.write_text('{"t":1,"kind":"start"}\n')
    run.samples.write_text('{"t":1}\n')
    return run, made


def add_checkpoint(run: Run, step: int, validated: int = 0, size: int = 1000, seed: int = 0) -> Path:
    """As trainer.learn.checkpoint lays them out."""
    path = run.checkpoints / f"{step:08d}-{validated}"
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.mkdir(parents=True)
    block = hashlib.sha256(f"{step} {seed}".encode()).digest()
    (unfinished / "weights.params").write_bytes((block * (size // 32 + 1))[:size])
    (unfinished / "state.json").write_text(json.dumps({"progress": {"step": step, "validated_epochs": validated}}))
    checksums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(unfinished.iterdir())}
    (unfinished / "checksums.json").write_text(json.dumps(checksums))
    unfinished.rename(path)
    run.latest.write_text(path.name + "\n")
    return path


def content(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def follower(run: Run, config: Config, owner_id: str = "me", host: str = "here") -> Follower:
    """A mirror whose trainer says nothing."""
    silent, _ = os.pipe()
    orders = Orders(silent, config.checkpoint_mirror_mb_per_second)
    return Follower(run, config, {"id": owner_id, "host": host, "started": 1.0}, orders)


def mirrored_steps(config: Config) -> list[int]:
    """The steps that LATEST of the second place names, newest first."""
    return [copy.step for copy in owner.read(there(config.checkpoint_mirror, config.run_directory.name)).copies]


def until(true, what: str = "waited in vain"):
    """What `true` returns as soon as it is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := true()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found
