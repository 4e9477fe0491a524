"""The command line of MXNet's train_imagenet.py, option for option, as values of the configuration."""

from pathlib import Path
from typing import Annotated

import typer

from trainer.errors import ConfigError

# Option of train_imagenet.py -> key of the configuration, where one is the other.
SAME_MEANING = {
    "network": "network", "num_layers": "num_layers", "data_train": "data_train", "data_val": "data_val",
    "batch_size": "batch_size", "data_nthreads": "decode_threads", "num_classes": "num_classes",
    "num_examples": "num_examples", "num_epochs": "epochs", "lr": "learning_rate",
    "lr_factor": "learning_rate_factor", "optimizer": "optimizer", "mom": "momentum", "wd": "weight_decay",
    "dtype": "precision", "kv_store": "kvstore", "model_prefix": "model_prefix", "load_epoch": "load_epoch",
    "disp_batches": "display_steps",
}


def option(help_text: str, *names: str):
    return typer.Option(*names, help=help_text, show_default=False, rich_help_panel="As train_imagenet.py")


Network = Annotated[str | None, option("resnet, or a name of Gluon's model zoo.")]
NumLayers = Annotated[int | None, option("Layers of the resnet: 18, 34, 50, 101, 152 (small images: 8, 20, 56, 110).")]
Gpus = Annotated[str | None, option("GPUs to use, as in 0,1,2,3; left out: the CPU.")]
DataTrain = Annotated[Path | None, option("Training records, a .rec file.")]
DataVal = Annotated[Path | None, option("Validation records, a .rec file.")]
BatchSize = Annotated[int | None, option("Images of one step on all devices together [128].")]
DataThreads = Annotated[int | None, option("Decode threads [4].", "--data-nthreads")]
ImageShape = Annotated[str | None, option("Channels, height and width, as in 3,224,224.")]
NumClasses = Annotated[int | None, option("Number of classes [1000].")]
NumExamples = Annotated[int | None, option("Images of one epoch [all records].")]
NumEpochs = Annotated[int | None, option("Epochs to train [80].")]
Lr = Annotated[float | None, option("Learning rate, taken as it is [0.1].")]
LrFactor = Annotated[float | None, option("What each step multiplies the learning rate with [0.1].")]
LrStepEpochs = Annotated[str | None, option("Epochs at which the learning rate steps [30,60].")]
Optimizer = Annotated[str | None, option("Optimizer [sgd].")]
Mom = Annotated[float | None, option("Momentum [0.9].")]
Wd = Annotated[float | None, option("Weight decay [0.0001].")]
Dtype = Annotated[str | None, option("float32 or float16 [float32].")]
KvStore = Annotated[str | None, option("How devices exchange gradients [device].")]
ModelPrefix = Annotated[Path | None, option("Write PREFIX-symbol.json and PREFIX-NNNN.params after each epoch.")]
LoadEpoch = Annotated[int | None, option("Start from PREFIX-NNNN.params of this epoch.")]
DispBatches = Annotated[int | None, option("Steps between two lines of progress [20].")]
TopK = Annotated[int | None, option("Report the top-k accuracy too [0: top-5].")]
TestIo = Annotated[int, option("1: measure reading and decoding alone.")]
Benchmark = Annotated[int, option("1: measure the network alone, on synthetic images.")]

# What train_imagenet.py takes for options that are not given (its 2017 version), and the recipe it stands for.
_DEFAULTS = {
    "network": "resnet", "num_classes": 1000, "epochs": 80, "batch_size": 128, "learning_rate": 0.1, "optimizer": "sgd",
    "warmup_epochs": 0.0, "schedule": "steps", "learning_rate_step_epochs": [30.0, 60.0], "label_smoothing": 0.0,
    "display_steps": 20,
}


def config_values(options: dict) -> dict:
    """Values for `config.build` from the options that were given (by their Python names)."""
    given = {key: value for key, value in options.items() if value is not None}
    values = dict(_DEFAULTS)
    values |= {key: _plain(given[option]) for option, key in SAME_MEANING.items() if option in given}
    if given.get("gpus"):
        values["devices"] = [f"gpu({number})" for number in _numbers(given["gpus"], "--gpus")]
    if "image_shape" in given:
        values["image_shape"] = _numbers(given["image_shape"], "--image-shape")
    if "lr_step_epochs" in given:
        values["learning_rate_step_epochs"] = _numbers(given["lr_step_epochs"], "--lr-step-epochs")
    if given.get("top_k"):
        values["top_k"] = given["top_k"]
    if values["network"] == "resnet":
        values.setdefault("num_layers", 50)
    return values


def _plain(value):
    """Paths as the shell's working folder sees them, everything else as it is."""
    return str(value.absolute()) if isinstance(value, Path) else value


def _numbers(text: str, name: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ConfigError(f"command line: {name} must be whole numbers with commas between, got {text!r}") from None
