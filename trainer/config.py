"""The trainer's configuration: one frozen, validated object, read from TOML.

Each field's description says what the value must be. It is the documentation and the error message at once:
`trainer.toml: batch_size must be a whole number above 0, got -3`.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainer.config_rules import broken_rules
from trainer.errors import ConfigError

Positive = Annotated[int, Field(gt=0, strict=True)]
Number = Annotated[float, Field(strict=True)]
Share = Annotated[Number, Field(ge=0, lt=1)]
Channels = tuple[Number, Number, Number]

# The ImageNet statistics of MXNet's own recipe (example/image-classification/common/data.py), in 0-255 units.
IMAGENET_MEAN = (123.68, 116.779, 103.939)
IMAGENET_STD = (58.393, 57.12, 57.375)


def _key(must_be: str, default: Any = ..., **limits) -> Any:
    return Field(default, description=must_be, **limits)


class Tuned(BaseModel):
    """What `tune` measured with this batch size and these decode threads, in images/s."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    images_per_second: Annotated[Number, Field(gt=0)]
    roof_images_per_second: Annotated[Number, Field(gt=0)] | None = None
    largest_batch: Positive | None = None
    sufficient_batch: Positive | None = None


class Config(BaseModel):
    """Everything that a training run depends on. Paths are absolute once loaded; sizes count records or pixels."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    run_directory: Path = _key("the directory of the run")

    # Data
    data_train: Path = _key("the path of a .rec file")
    data_val: Path | None = _key("the path of a .rec file", None)
    image_shape: tuple[Literal[3], Positive, Positive] = _key("[3, height, width]", (3, 224, 224))
    num_classes: Annotated[int, Field(gt=1, le=2**24, strict=True)] = _key("a whole number from 2 to 16777216")
    num_examples: Positive | None = _key("the images of one epoch, a whole number above 0 (left out: all)", None)
    label_width: Positive = _key("the number of labels in a record, a whole number above 0", 1)
    input_engine: Literal["kit", "mxnet"] = _key('"kit" or "mxnet" (MXNet\'s own iterator, for comparison)', "kit")
    decode_threads: Annotated[int, Field(gt=0, le=4096, strict=True)] = _key("a whole number from 1 to 4096", 4)
    bad_record_share: Share = _key("the share of damaged records to pass over, a number of 0 or more, below 1", 0.001)
    augmentation: Literal["imagenet", "crop", "pad", "none"] = _key(
        '"imagenet" (random resized crop, flip, colour), "crop" (the same without colour), '
        '"pad" (shift by up to 1/8, flip) or "none"',
        "imagenet",
    )
    mean: Channels = _key("three numbers (red, green, blue; 0-255)", IMAGENET_MEAN)
    std: tuple[Annotated[Number, Field(gt=0)], ...] = _key(
        "three numbers above 0 (red, green, blue; 0-255)", IMAGENET_STD, min_length=3, max_length=3
    )

    # Network and devices
    network: str = _key('"resnet" or a name of Gluon\'s model zoo', "resnet", min_length=1)
    num_layers: Positive | None = _key("the layers of a resnet, a whole number above 0", None)
    init_from: Path | None = _key("the path of a .params file", None)
    devices: tuple[Annotated[str, Field(pattern=r"^(cpu|gpu)\(\d+\)$")], ...] = _key(
        'a list like ["gpu(0)", "gpu(1)"] or ["cpu(0)"]', ("cpu(0)",), min_length=1
    )
    compute_threads: Positive | None = _key(
        "the OpenMP threads of a CPU device, a whole number above 0 (left out: half of the processors)", None
    )
    kvstore: Literal["device", "local", "nccl"] = _key('"device", "local" or "nccl"', "device")
    precision: Literal["float32", "float16", "bfloat16"] = _key('"float32", "float16" or "bfloat16"', "float32")

    # Recipe
    epochs: Number = _key("a number above 0, at most 1000000", gt=0, le=1e6)
    batch_size: Positive = _key("the images of one step on all devices together, a whole number above 0")
    base_learning_rate: Number | None = _key("the learning rate for a batch of 256, a number above 0", None, gt=0)
    learning_rate: Number | None = _key("the literal learning rate, a number above 0", None, gt=0)
    warmup_epochs: Number = _key("a number of 0 or more", 5.0, ge=0)
    schedule: Literal["cosine", "steps"] = _key('"cosine" or "steps"', "cosine")
    learning_rate_factor: Number = _key("a number above 0, at most 1", 0.1, gt=0, le=1)
    learning_rate_step_epochs: tuple[Annotated[Number, Field(gt=0)], ...] = _key(
        "a list of epochs, each above 0", (30.0, 60.0, 80.0)
    )
    optimizer: Literal["nag", "sgd", "adam", "lars", "lamb", "rmsprop"] = _key(
        '"nag", "sgd", "adam", "lars", "lamb" or "rmsprop"', "nag"
    )
    momentum: Share = _key("a number of 0 or more, below 1", 0.9)
    weight_decay: Number = _key("a number of 0 or more", 1e-4, ge=0)
    label_smoothing: Share = _key("a number of 0 or more, below 1", 0.1)
    top_k: Positive = _key("a whole number above 0", 5)
    seed: Annotated[int, Field(ge=0, lt=2**31, strict=True)] = _key("a whole number from 0 to 2147483647", 0)

    # Running
    display_steps: Positive | None = _key("the steps between two lines of progress (left out: every 2 s)", None)
    checkpoint_interval: Literal["auto"] | Annotated[Number, Field(gt=0)] = _key(
        '"auto" (from what a checkpoint costs) or the seconds between two checkpoints, a number above 0', "auto"
    )
    checkpoints_kept: Annotated[int, Field(gt=1, strict=True)] = _key("a whole number above 1", 2)
    mean_seconds_between_interruptions: Number = _key(
        'the seconds until such a machine is lost, on average (for checkpoint_interval = "auto"), a number above 0',
        1800.0, gt=0,
    )
    model_prefix: Path | None = _key("where to write PREFIX-symbol.json and PREFIX-NNNN.params each epoch", None)
    load_epoch: Annotated[int, Field(ge=0, strict=True)] | None = _key(
        "the epoch whose PREFIX-NNNN.params to start from, a whole number", None
    )
    imds_url: str | None = _key(
        "the address of the machine's metadata service, http://HOST[:PORT] (left out: nobody asks for notices)", None,
        pattern=r"^http://(\[[0-9a-fA-F:.]+\]|[^/\s:@\[\]]+)(:\d{1,5})?$",
    )
    checkpoint_mirror: str | None = _key(
        'a second place for checkpoints, "file:///directory" or "s3://bucket/prefix"; each run has a folder there',
        None, pattern=r"^(file:///[^?#]+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/@?#]+)*/?)$",
    )
    checkpoint_mirror_mb_per_second: Number | None = _key(
        "the most MB to send to checkpoint_mirror a second, a number above 0 (left out: no limit)", None, gt=0
    )

    # Written by `tune`; training does not read it
    tuning: Tuned | None = _key(
        "a table of images_per_second, roof_images_per_second, largest_batch and sufficient_batch, each above 0", None
    )

    def to_toml(self) -> str:
        """The same configuration as a file's text; reading it back gives an equal object."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def load(path: Path) -> Config:
    """The configuration in a TOML file. Paths in it are relative to the file's folder.

    ConfigError lists every problem at once.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: the file must be readable TOML, got: {error}") from error
    return build(values, source=str(path), folder=path.resolve().parent)


def build(values: dict, *, source: str, folder: Path) -> Config:
    """A Config from plain values; `source` is what error messages call them."""
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError(*_problems(error, source), *_broken_rules_of_the_rest(values, error, source)) from error
    config = config.model_copy(update=_absolute_paths(config, folder))
    broken = [f"{source}: {rule}" for rule in broken_rules(config)]
    if broken:
        raise ConfigError(*broken)
    return config


def _absolute_paths(config: Config, folder: Path) -> dict[str, Path]:
    return {key: folder / value for key, value in config if isinstance(value, Path)}


def _problems(error: ValidationError, source: str) -> list[str]:
    """One line a key: several faults inside one value (a list's items) are one problem."""
    lines = {}
    for fault in error.errors():
        key = str(fault["loc"][0])
        lines.setdefault(key, f"{source}: {_problem(key, fault, error)}")
    return list(lines.values())


# For keys that must be there and are wrong: values that break no rule.
_STAND_INS = {"run_directory": ".", "data_train": "train.rec", "num_classes": 2, "epochs": 1e6, "batch_size": 1}


def _broken_rules_of_the_rest(values: dict, error: ValidationError, source: str) -> list[str]:
    """The rules that the good keys break among themselves, so that all problems are told at once."""
    bad = {str(fault["loc"][0]) for fault in error.errors()}
    config = Config.model_validate(_STAND_INS | {key: value for key, value in values.items() if key not in bad})
    return [f"{source}: {rule}" for rule in broken_rules(config) if not any(key in rule for key in bad)]


def _problem(key: str, fault: dict, error: ValidationError) -> str:
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, Config.model_fields, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{key} must be a known key{hint}, got {key} = {fault['input']!r}"
    got = "nothing" if fault["type"] == "missing" and len(fault["loc"]) == 1 else _value_at(key, fault)
    return f"{key} must be {Config.model_fields[key].description}, got {got}"


def _value_at(key: str, fault: dict) -> str:
    place = "".join(f"[{part}]" for part in fault["loc"][1:] if isinstance(part, int))
    return f"{fault['input']!r}" + (f" at {key}{place}" if place else "")
