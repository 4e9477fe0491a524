"""Checkpoints: whole or not there at all.

    checkpoints/<step>-<validations>/   weights.params      every parameter, as Gluon's load_parameters reads it
                                        optimizer.params    momentum and its kin
                                        statistics.params   the other devices' batch-norm statistics
                                        state.json          progress, configuration, versions
                                        checksums.json      SHA-256 of the files above
    LATEST                              the name of the newest one

A directory gets its name when everything in it is on disk. Nothing is a pickle.
"""

import hashlib
import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mxnet import nd

from trainer import __version__
from trainer.config import Config
from trainer.errors import DiskError
from trainer.files import sync, write_whole
from trainer.learn.optimizer import load_state_arrays, state_arrays
from trainer.learn.parameters import wait_for_statistics, write_arrays
from trainer.run import Run

_UNFINISHED = ".unfinished"


@dataclass
class Progress:
    """How far a run is. An epoch's end is `validated_epochs` behind until its validation has run."""

    step: int = 0
    samples: int = 0
    validated_epochs: int = 0
    top1: float | None = None
    best_top1: float | None = None
    train_seconds: float = 0.0
    wall_seconds: float = 0.0


def save(run: Run, config: Config, progress: Progress, network, trainer) -> dict:
    """Writes a checkpoint and points LATEST at it; returns the fields of its event.

    DiskError when it cannot be written; older checkpoints are untouched then.
    """
    started = time.monotonic()
    final = run.checkpoints / f"{progress.step:08d}-{progress.validated_epochs}"
    try:
        if not final.exists() or _damage(final):
            _remove_unfinished(run)
            _write_checkpoint(final, config, progress, network, trainer)
        write_whole(run.latest, final.name + "\n")
        _remove_old(run, config.checkpoints_kept)
    except (OSError, DiskError) as error:
        _remove_unfinished(run)
        raise DiskError(f"{final}: the checkpoint could not be written: {error}") from error
    size = sum(path.stat().st_size for path in final.iterdir())
    return {
        "step": progress.step, "seconds": round(time.monotonic() - started, 4), "bytes": size, "path": str(final)
    }


def damaged(run: Run) -> list[str]:
    """What is wrong with each checkpoint that cannot be continued from; a killed writer's leftovers are no loss."""
    found = {path: _damage(path) for path in sorted(run.checkpoints.glob("*")) if not path.name.endswith(_UNFINISHED)}
    return [f"{path}: {damage}" for path, damage in found.items() if damage]


def newest(run: Run) -> Path | None:
    """The newest complete checkpoint: LATEST's, or the one with the most steps among those that are whole."""
    return next(iter(_whole(run)), None)


def forget_from(run: Run, step: int) -> None:
    """Removes the checkpoints of `step` and later: their weights turned out to give a loss that is no number."""
    for path in _whole(run):
        if read_state(path)[0].step >= step:
            shutil.rmtree(path)
    kept = newest(run)
    if kept is None:
        run.latest.unlink(missing_ok=True)
    else:
        write_whole(run.latest, kept.name + "\n")


def read_state(path: Path) -> tuple[Progress, dict]:
    """Progress and the whole state.json (config, versions) of a complete checkpoint."""
    state = json.loads((path / "state.json").read_text())
    return Progress(**state["progress"]), state


def load(path: Path, network, trainer) -> Progress:
    """Restores weights, each device's statistics and the optimizer from a checkpoint that `newest` found whole."""
    progress, _ = read_state(path)
    contexts = trainer._contexts
    network.load_parameters(str(path / "weights.params"), ctx=contexts)
    _load_statistics(nd.load(str(path / "statistics.params")), network)
    load_state_arrays(trainer, nd.load(str(path / "optimizer.params")), progress.step)
    wait_for_statistics()
    return progress


def _write_checkpoint(final: Path, config: Config, progress: Progress, network, trainer) -> None:
    unfinished = final.with_name(final.name + _UNFINISHED)
    unfinished.mkdir(parents=True)
    _write_arrays(unfinished, network, trainer)
    write_whole(unfinished / "state.json", json.dumps(_state(config, progress), indent=1))
    write_whole(unfinished / "checksums.json", json.dumps(_checksums(unfinished), indent=1))
    if final.exists():  # damaged
        shutil.rmtree(final)
    unfinished.rename(final)
    sync(final.parent)


def _remove_unfinished(run: Run) -> None:
    for path in run.checkpoints.glob("*" + _UNFINISHED):
        shutil.rmtree(path)


def _state(config: Config, progress: Progress) -> dict:
    return {
        "progress": asdict(progress), "config": config.model_dump(mode="json"), "version": __version__,
        "saved": time.time(),
    }


def _write_arrays(directory: Path, network, trainer) -> None:
    wait_for_statistics()
    write_arrays(directory / "weights.params", _first_device(network))
    write_arrays(directory / "optimizer.params", state_arrays(trainer))
    write_arrays(directory / "statistics.params", _statistics(network))
    for path in directory.iterdir():
        sync(path)


def _first_device(network) -> dict:
    """As save_parameters names them; that function would average the devices' statistics."""
    return {name: parameter.list_data()[0] for name, parameter in network._collect_params_with_prefix().items()}


def _statistics(network) -> dict:
    """Running means and variances of all devices but the first, whose are among the weights."""
    return {
        f"{device}.{name}": array
        for name, parameter in network._collect_params_with_prefix().items()
        if parameter.grad_req == "null"
        for device, array in enumerate(parameter.list_data())
        if device > 0
    }


def _load_statistics(arrays: dict, network) -> None:
    """A device that the checkpoint does not know keeps the first one's statistics."""
    for name, parameter in network._collect_params_with_prefix().items():
        if parameter.grad_req == "null":
            for device, array in enumerate(parameter.list_data()):
                if f"{device}.{name}" in arrays:
                    array[:] = arrays[f"{device}.{name}"].as_in_context(array.context)


def _whole(run: Run) -> list[Path]:
    """The complete checkpoints: LATEST's first, then the others by the step that stands in them."""
    steps = {path: read_state(path)[0].step for path in run.checkpoints.glob("*") if not _damage(path)}
    ordered = sorted(steps, key=steps.get, reverse=True)
    try:
        latest = run.checkpoints / run.latest.read_text(errors="replace").strip()
    except OSError:
        return ordered
    return sorted(ordered, key=lambda path: path != latest)


def _damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None when it is whole."""
    if path.name.endswith(_UNFINISHED):
        return "its writing did not finish"
    try:
        if _checksums(path) != json.loads((path / "checksums.json").read_text()):
            return "its files are not the ones that were written: the checksums differ"
        read_state(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"it is not complete: {error}"
    return None


def _checksums(directory: Path) -> dict[str, str]:
    return {path.name: _sha256(path) for path in sorted(directory.iterdir()) if path.name != "checksums.json"}


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_old(run: Run, keep: int) -> None:
    for path in _whole(run)[keep:]:
        shutil.rmtree(path)
