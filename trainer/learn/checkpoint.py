"""Checkpoints: whole or not there at all.

    checkpoints/<step>-<validations>/   weights.params      every parameter, as Gluon's load_parameters reads it
                                        optimizer.params    momentum and its kin
                                        statistics.params   the other devices' batch-norm statistics
                                        state.json          progress, counters, configuration, data, versions
                                        checksums.json      SHA-256 of the files above
    LATEST                              the name of the newest one

A directory gets its name when everything in it is on disk (trainer.checkpoint_files). Nothing is a pickle; checksums
come before anything is read.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from mxnet import nd

from trainer import checkpoint_files
from trainer.errors import ConfigError
from trainer.files import remove_stale_drafts, write_whole
from trainer.learn.optimizer import load_counters, load_state_arrays
from trainer.learn.parameters import wait_for_statistics
from trainer.run import Run

# The whole checkpoints and what their state.json says, newest first.
Whole = dict[Path, dict]


@dataclass
class Progress:
    """How far a run is. An epoch's end is `validated_epochs` behind until its validation has run.

    top1 is of the weights after `validated_step`.
    """

    step: int = 0
    samples: int = 0
    validated_epochs: int = 0
    top1: float | None = None
    validated_step: int | None = None
    best_top1: float | None = None
    train_seconds: float = 0.0
    wall_seconds: float = 0.0


def survey(run: Run) -> tuple[Whole, list[str]]:
    """The whole checkpoints, and what is wrong with each of the others; a killed writer's leftovers are no loss."""
    damage = {path: damage_of(path) for path in checkpoint_files.directories(run)}
    whole = {path: read_state(path) for path, found in damage.items() if found is None}
    return newest_first(whole), [f"{path}: {found}" for path, found in damage.items() if found]


def newest(run: Run) -> Path | None:
    """The whole checkpoint that got furthest. LATEST may be one behind: its writer was killed before it wrote that."""
    return next(iter(survey(run)[0]), None)


def newest_first(whole: Whole) -> Whole:
    return dict(sorted(whole.items(), key=lambda item: _place(item[1]), reverse=True))


def best(whole: Whole, data_val: dict | None) -> Path | None:
    """The checkpoint of the weights that did best in validation on that data; None when none was validated."""
    progress = {path: progress_of(state) for path, state in whole.items() if same_data(state["data"]["val"], data_val)}
    validated = {path: one.top1 for path, one in progress.items() if one.step == one.validated_step}
    return max(validated, key=validated.get, default=None)


def same_data(before: dict | None, now: dict | None) -> bool:
    """Whether two descriptions are of the same records; what one of them does not know cannot differ."""
    if before is None or now is None:
        return before is now
    return all(before.get(key) in (None, value) or value is None for key, value in now.items())


def tidy(run: Run) -> None:
    """Removes what killed writers left; for the process that holds the run's lease."""
    checkpoint_files.remove_unfinished(run)
    remove_stale_drafts(run.directory)


def forget_from(run: Run, step: int) -> None:
    """Removes the checkpoints of `step` and later: their weights turned out to give a loss that is no number."""
    whole, _ = survey(run)
    kept = [path for path, state in whole.items() if state["progress"]["step"] < step]
    for path in whole.keys() - set(kept):
        checkpoint_files.remove(path)
    name_latest(run, kept[0] if kept else None)


def name_latest(run: Run, path: Path | None) -> None:
    """Writes nothing when LATEST says so already: the disk may be full."""
    if path is None:
        run.latest.unlink(missing_ok=True)
    elif not (run.latest.is_file() and run.latest.read_bytes() == path.name.encode() + b"\n"):
        write_whole(run.latest, path.name + "\n")


def read_state(path: Path) -> dict:
    """state.json of a whole checkpoint; ConfigError when it is of version 0.1.0, which kept less of a run."""
    state = json.loads((path / "state.json").read_text())
    if "data" not in state:
        raise ConfigError(
            f"{path}: must be a checkpoint of version 0.2.0 or later, got one of {state['version']}: "
            "finish the run with that version, or give the new one another name"
        )
    return state


def progress_of(state: dict) -> Progress:
    return Progress(**state["progress"])


def load(path: Path, network, trainer) -> None:
    """Restores weights, statistics and the optimizer from a checkpoint that `survey` found whole."""
    state = read_state(path)
    contexts = trainer._contexts
    network.load_parameters(str(path / "weights.params"), ctx=contexts)
    _load_statistics(nd.load(str(path / "statistics.params")), network, len(state["config"]["devices"]))
    load_state_arrays(trainer, nd.load(str(path / "optimizer.params")))
    load_counters(trainer, state["counters"])
    wait_for_statistics()


def _load_statistics(arrays: dict, network, saved_devices: int) -> None:
    """Each device its own; when their number has changed, each the mean of those that were saved."""
    for name, parameter in network._collect_params_with_prefix().items():
        if parameter.grad_req != "null":
            continue
        devices = parameter.list_data()
        saved = [devices[0].copy(), *(arrays[f"{device}.{name}"] for device in range(1, saved_devices))]
        if len(saved) != len(devices):
            total = sum(array.as_in_context(saved[0].context) for array in saved)
            saved = [total / len(saved)] * len(devices)
        for device, array in zip(devices, saved, strict=True):
            device[:] = array.as_in_context(device.context)


def damage_of(path: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None when it is whole."""
    try:
        damage = checkpoint_files.damage_of(path)
        if damage is None:
            progress_of(read_state(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"it is not complete: {error}"
    return damage


def _place(state: dict) -> tuple[int, int]:
    return state["progress"]["step"], state["progress"]["validated_epochs"]
