"""Rules between keys of the configuration: what each key alone cannot see."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainer.spot.place import folder_of

if TYPE_CHECKING:
    from trainer.config import Config

# Layers of the residual networks: 224 px as He et al. 2015 (table 1); 28-32 px as their section 4.2, 6n + 2.
LARGE_IMAGE_LAYERS = (18, 34, 50, 101, 152)
SMALL_IMAGE_LAYERS = (8, 20, 56, 110)
SMALL_IMAGE_PIXELS = 32


def is_small_image(image_shape: tuple[int, int, int]) -> bool:
    """Whether a resnet takes its small-image form; MXNet's own recipe draws the same line by the height."""
    return image_shape[1] <= SMALL_IMAGE_PIXELS


def broken_rules(config: "Config") -> list[str]:
    """What is impossible about the configuration, as `key must be ..., got ...`."""
    return [line for rule in _RULES for line in rule(config)]


def _learning_rate(config: "Config") -> Iterator[str]:
    given = [key for key in ("base_learning_rate", "learning_rate") if getattr(config, key) is not None]
    if len(given) != 1:
        yield (
            "base_learning_rate must be given, or learning_rate, and not both, "
            f"got {' and '.join(given) or 'neither'}"
        )


def _layers(config: "Config") -> Iterator[str]:
    if config.network != "resnet":
        if config.num_layers is not None:
            yield f'num_layers must be left out for network "{config.network}", got {config.num_layers}'
        return
    allowed = SMALL_IMAGE_LAYERS if is_small_image(config.image_shape) else LARGE_IMAGE_LAYERS
    if config.num_layers not in allowed:
        listed = ", ".join(map(str, allowed))
        yield (
            f"num_layers must be one of {listed} for images of {config.image_shape[1]} px, "
            f"got {'nothing' if config.num_layers is None else config.num_layers}"
        )


def _devices(config: "Config") -> Iterator[str]:
    devices = config.devices
    if len(set(devices)) != len(devices) or len({device[:3] for device in devices}) != 1:
        yield f"devices must be different devices of one kind, got {list(devices)}"
    if config.batch_size % len(devices):
        yield f"batch_size must be a multiple of the number of devices ({len(devices)}), got {config.batch_size}"
    if config.precision == "float16" and devices[0].startswith("cpu"):
        yield 'precision must be "float32" or "bfloat16" on CPU devices, got "float16"'
    if config.kvstore == "nccl" and devices[0].startswith("cpu"):
        yield 'kvstore must be "device" or "local" on CPU devices, got "nccl"'


def _schedule(config: "Config") -> Iterator[str]:
    steps = config.learning_rate_step_epochs
    if list(steps) != sorted(set(steps)):
        yield f"learning_rate_step_epochs must be rising, got {list(steps)}"
    if config.warmup_epochs and config.warmup_epochs >= config.epochs:
        yield f"warmup_epochs must be below epochs ({config.epochs:g}), got {config.warmup_epochs:g}"


def _start(config: "Config") -> Iterator[str]:
    if config.load_epoch is not None and config.model_prefix is None:
        yield f"model_prefix must be given with load_epoch, got load_epoch = {config.load_epoch} alone"
    if config.load_epoch is not None and config.load_epoch >= config.epochs:
        yield f"load_epoch must be below epochs ({config.epochs:g}), got {config.load_epoch}"
    if config.load_epoch is not None and config.init_from is not None:
        yield "init_from must be left out with load_epoch, got both"


def _mirror(config: "Config") -> Iterator[str]:
    if config.checkpoint_mirror is None and config.checkpoint_mirror_mb_per_second is not None:
        yield (
            "checkpoint_mirror_mb_per_second must be left out without checkpoint_mirror, "
            f"got {config.checkpoint_mirror_mb_per_second:g}"
        )
    if config.checkpoint_mirror is not None and config.checkpoint_mirror.startswith("file:"):
        run = config.run_directory.resolve()
        place = (folder_of(config.checkpoint_mirror) / config.run_directory.name).resolve()
        if place == run or place.is_relative_to(run) or run.is_relative_to(place):
            yield f"checkpoint_mirror must lead away from the run's directory ({run}), got {config.checkpoint_mirror!r}"


_RULES = (_learning_rate, _layers, _devices, _schedule, _start, _mirror)
