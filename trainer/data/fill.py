"""From a picture's bytes to what a network is fed: only its crop decoded where that can be done, else the whole."""

import numpy as np

from trainer.data import native
from trainer.data.augment import Augmentation, show, validation_view
from trainer.data.decode import decode
from trainer.data.target import Target

_NONE = np.zeros((1, 0))  # random numbers for a view that has none


def fill_crops(
    sources: native.Sources, augment: Augmentation, numbers: np.ndarray, target: Target, labels: np.ndarray,
    out: np.ndarray,
) -> np.ndarray:
    """Puts what can be decoded by crops into out [n, 3, height, width]; bool [n] says what was. Needs `native`."""
    views = augment(sources.measure(labels), target.height, target.width, numbers)
    if views.moves is not None:
        return np.zeros(len(out), bool)
    return sources.render(views, target, out)


def fill_whole(
    picture: bytes, augment: Augmentation, numbers: np.ndarray, target: Target, out: np.ndarray
) -> None:
    """Decodes all of a picture and puts what is to be seen of it into out [3, height, width]; BadRecordError."""
    image = decode(picture)
    views = augment(np.array([image.shape[:2]]), target.height, target.width, numbers[None])
    target.write(show(image, views, 0, target.height, target.width), out)


def fill_validation(picture: bytes, target: Target, out: np.ndarray) -> None:
    """One picture, seen as in validation; BadRecordError."""
    if native.library() is not None:
        sources = native.Sources.in_memory([picture])
        if fill_crops(sources, validation_view, _NONE, target, np.empty(1, np.float32), out[None]).all():
            return
    fill_whole(picture, validation_view, _NONE[0], target, out)
