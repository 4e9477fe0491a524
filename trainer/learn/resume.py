"""What happens when a run continues with other settings, data or code: a rule for each key of the configuration.

docs/resume.md says the same to users.
"""

import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

import mxnet as mx
import numpy as np

import trainer
from trainer import __version__
from trainer.config import Config
from trainer.data.manifest import read_manifest
from trainer.data.records import RecordFile
from trainer.errors import ConfigError
from trainer.learn.checkpoint import same_data
from trainer.learn.optimizer import MOMENTUM
from trainer.learn.schedule import peak_learning_rate

PACKAGE = Path(trainer.__file__).parent


class Rule(NamedTuple):
    """refused: the run cannot continue so. words: what follows from the change, or why it is refused."""

    refused: bool
    words: str


_WEIGHTS = Rule(True, "the weights would not fit")
_OPTIMIZER = Rule(True, "the optimizer's state would not fit")
_RANDOM = Rule(True, "the epoch under way would come in another order")
_INPUT = Rule(True, "the weights were trained on pictures as they were")
_RATE = Rule(False, "the schedule is computed anew from the images seen")
_FREE = Rule(False, "training does not depend on it")
_NEXT = Rule(False, "in force from the next step on")
_DATA = Rule(False, "the same records in another place")
_START = Rule(False, "only a run without a checkpoint starts from it")

RULES = {
    "run_directory": Rule(False, "the run was moved"),
    "data_train": _DATA,
    "data_val": Rule(False, "other records than before make the best so far begin anew"),
    "image_shape": _WEIGHTS,
    "num_classes": _WEIGHTS,
    "num_examples": Rule(True, "the epoch under way would have another length"),
    "label_width": Rule(True, "the labels would be others"),
    "input_engine": Rule(False, "in force from the next step on; the rest of the epoch comes in another order"),
    "decode_threads": Rule(False, 'training does not depend on it, but for the crops of input_engine = "mxnet"'),
    "bad_record_share": _FREE,
    "augmentation": _NEXT,
    "mean": _INPUT,
    "std": _INPUT,
    "network": _WEIGHTS,
    "num_layers": _WEIGHTS,
    "init_from": _START,
    "devices": Rule(
        False, "when their number changes, each starts from the mean of the saved devices' batch-norm statistics"
    ),
    "compute_threads": Rule(False, "sums may be rounded otherwise"),
    "kvstore": Rule(False, "sums may be rounded otherwise"),
    "precision": Rule(True, "weights and loss scale belong to it"),
    "epochs": _RATE,
    "batch_size": Rule(False, "the place in the epoch is kept by images seen"),
    "base_learning_rate": _RATE,
    "learning_rate": _RATE,
    "warmup_epochs": _RATE,
    "schedule": _RATE,
    "learning_rate_factor": _RATE,
    "learning_rate_step_epochs": _RATE,
    "optimizer": _OPTIMIZER,
    "momentum": _NEXT,
    "weight_decay": _NEXT,
    "label_smoothing": _NEXT,
    "top_k": Rule(False, "in force from the next validation on"),
    "seed": _RANDOM,
    "display_steps": _FREE,
    "checkpoint_interval": _FREE,
    "checkpoints_kept": _FREE,
    "mean_seconds_between_interruptions": _FREE,
    "model_prefix": Rule(False, "in force from the next validation on"),
    "load_epoch": _START,
    "imds_url": _FREE,
    "checkpoint_mirror": _FREE,
    "checkpoint_mirror_mb_per_second": _FREE,
    "tuning": _FREE,
}
# A run that is finished may change these only: its result would be the same.
ALWAYS_FREE = {key for key, rule in RULES.items() if rule is _FREE} | {"run_directory", "decode_threads"}
# What else may differ.
_WORLD = {
    "code": "what a step does may have changed",
    "mxnet": "sums may be rounded otherwise",
    "numpy": "sums may be rounded otherwise",
    "python": "training does not depend on it",
    "decoder": "pixels may be rounded otherwise",
    "learning_rate_peak": "in force from the next step on",
}


def description(config: Config, records: RecordFile, validation: RecordFile | None, decoder: str) -> dict:
    """What a checkpoint remembers of the world that it was made in. decoder: the loader's."""
    return {
        "config": config.model_dump(mode="json"),
        "data": {"train": data_identity(records), "val": validation and data_identity(validation)},
        "versions": {
            "code": f"{__version__} ({_code_digest()})", "mxnet": mx.__version__, "numpy": np.__version__,
            "python": ".".join(map(str, sys.version_info[:3])), "decoder": decoder,
        },
        "effective": {"learning_rate_peak": peak_learning_rate(config)},
    }


def data_identity(records: RecordFile) -> dict:
    """What tells one record file from another without reading it all; rec_sha256 when its manifest has it."""
    manifest = read_manifest(records.path) or {}
    return {
        "records": len(records), "bytes": records.path.stat().st_size,
        "offsets_sha256": hashlib.sha256(records.offsets.tobytes()).hexdigest(),
        "rec_sha256": manifest.get("rec_sha256"),
    }


def changes(saved: Path, before: dict, now: dict) -> dict:
    """`{key: [before, now]}` of everything that differs from a checkpoint's `description`.

    ConfigError names all that a run cannot continue with.
    """
    changed = _differences(before["config"], now["config"])
    refused = [line for key, pair in changed.items() if (line := _refusal(saved, key, *pair, now["config"]))]
    if not same_data(before["data"]["train"], now["data"]["train"]):
        refused.append(_other_data(saved, before, now))
    if refused:
        hint = "give the new one another run's name to train it from the start"
        raise ConfigError(*(f"configuration: {line}" for line in refused), f"configuration: {hint}")
    if not same_data(before["data"]["val"], now["data"]["val"]):  # perhaps at the same path
        changed["data_val"] = [_told(before, "val"), _told(now, "val")]
    return (
        changed | _differences(before["versions"], now["versions"])
        | _differences(before["effective"], now["effective"])
    )  # fmt: skip


def explained(changed: dict, config: Config) -> list[str]:
    """Each change in words, with what follows from it."""
    words = {key: rule.words for key, rule in RULES.items()} | _WORLD
    if config.learning_rate is None:
        words["batch_size"] += "; the learning rate follows the batch"
    else:
        words["batch_size"] += f"; learning_rate is given as it is, so it stays {config.learning_rate:g}"
    return [f"{key} is {now}, was {before}: {words[key]}" for key, (before, now) in changed.items()]


def _differences(before: dict, now: dict) -> dict:
    return {key: [before[key], now[key]] for key in now if key in before and before[key] != now[key]}


def _refusal(saved: Path, key: str, before, now, config: dict) -> str | None:
    rule = RULES[key]
    if key == "momentum" and config["optimizer"] in MOMENTUM and bool(before) != bool(now):
        rule = _OPTIMIZER  # it would appear or vanish
    return f"{key} must be {before!r} to continue {saved}, got {now!r}: {rule.words}" if rule.refused else None


def _other_data(saved: Path, before: dict, now: dict) -> str:
    return (
        f"data_train must be the data set of {saved}, {_told(before, 'train')}, got {_told(now, 'train')}: "
        "the epoch under way would have other images"
    )


def _told(described: dict, part: str) -> str:
    """The record file of a description in words."""
    path, data = described["config"][f"data_{part}"], described["data"][part]
    if data is None:
        return "none"
    digest = data["rec_sha256"] or data["offsets_sha256"]
    return f"{path} ({data['records']:,} records, {data['bytes']:,} bytes, checksum {digest[:12]})"


def _code_digest() -> str:
    """Of the kit's own program text: two checkouts of one version may differ."""
    digest = hashlib.sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".c")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
