"""Classes of pictures, by a run's exported model."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mxnet as mx
import numpy as np

from trainer.data.fill import fill_validation
from trainer.data.records import BadRecordError
from trainer.data.target import Target
from trainer.learn.export import load_exported, read_card
from trainer.run import Run

_BATCH = 32


@dataclass(frozen=True)
class Prediction:
    """`top`: (class name, probability), likeliest first; empty when `error` says why the file cannot be read."""

    file: Path
    top: list[tuple[str, float]]
    error: str | None = None


def predict(run: Run, files: list[Path], top: int = 5) -> list[Prediction]:
    """One prediction a file, in their order; pictures are seen as in validation.

    ConfigError when the run has no exported model, DataError when the model is damaged.
    """
    card = read_card(run)
    network = load_exported(run)
    target = Target.of(card["image_shape"], card["mean"], card["std"])
    names = card["classes"] or [str(number) for number in range(card["num_classes"])]
    return [
        prediction
        for start in range(0, len(files), _BATCH)
        for prediction in _predict_batch(network, files[start : start + _BATCH], target, names, top)
    ]


def _predict_batch(network, files: list[Path], target: Target, names: list[str], top: int) -> Iterator[Prediction]:
    images, errors = {}, {}
    for file in files:
        try:
            images[file] = _read(file, target)
        except (OSError, BadRecordError) as error:
            errors[file] = getattr(error, "strerror", None) or str(error)
    probabilities = dict(zip(images, _probabilities(network, list(images.values())), strict=True))
    for file in files:
        if file in errors:
            yield Prediction(file, [], errors[file])
        else:
            yield Prediction(file, _likeliest(probabilities[file], names, top))


def _read(file: Path, target: Target) -> np.ndarray:
    image = np.empty((3, target.height, target.width), np.float32)
    fill_validation(file.read_bytes(), target, image)
    return image


def _probabilities(network, images: list[np.ndarray]) -> np.ndarray:
    if not images:
        return np.empty((0, 0), np.float32)
    return mx.nd.softmax(network(mx.nd.array(np.stack(images)))).asnumpy()


def _likeliest(probabilities: np.ndarray, names: list[str], top: int) -> list[tuple[str, float]]:
    order = np.argsort(-probabilities, kind="stable")[:top]
    return [(names[number], float(probabilities[number])) for number in order]
