"""MXNet's own iterator behind the interface of the kit's loader: for comparison, and for those who want it.

It cannot do all that the kit's loader can (`LIMITS`). What can be mended is: the file is checked before it is opened, a
seed for each epoch, epochs of one length whatever the batch size, arrays in ordinary memory, its true thread count.
"""

import os
from collections.abc import Callable, Iterator

import mxnet as mx
import numpy as np

from trainer.data.augment import hashed, validation_enlargement
from trainer.data.batch import Batch
from trainer.data.labels import label_width
from trainer.data.memory import check_memory
from trainer.data.records import RecordFile, index_path
from trainer.data.target import Channels, Target
from trainer.errors import ConfigError

LIMITS = (
    "MXNet's iterator: a damaged picture can end the process or pass unseen (first: python -m trainer check FILE);"
    " after a stop inside an epoch its rest is drawn anew, so some records come twice and some not;"
    " two runs differ in their pictures; at most half of the processors decode"
)  # fmt: skip
_PREFETCHED_BATCHES = 4
# Those, the one being filled, MXNet's own and ours in use.
_BATCHES = _PREFETCHED_BATCHES + 3
# MXNet's train_imagenet.py (set_imagenet_aug): crops as the kit's, colours of the same strength.
_CROP = {
    "random_resized_crop": True, "rand_mirror": True, "min_random_area": 0.08, "max_random_area": 1.0,
    "min_aspect_ratio": 3 / 4, "max_aspect_ratio": 4 / 3,
}  # fmt: skip
_COLOURS = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "pca_noise": 0.1}


class MxnetLoader:
    """Endless batches as from `TrainLoader`, with the exceptions in `LIMITS`. `threads`: how many really decode."""

    decoder = "MXNet's ImageRecordIter"

    def __init__(
        self,
        records: RecordFile,
        *,
        batch_size: int,
        image_shape: tuple[int, int, int],
        mean: Channels,
        std: Channels,
        augmentation: str,
        seed: int,
        threads: int,
        num_examples: int | None = None,
        report: Callable[..., None] | None = None,
    ):
        if num_examples is not None and num_examples > len(records):
            raise ConfigError(
                f"num_examples must be at most {len(records)}, the records of {records.path}, got {num_examples}"
            )
        self.examples = num_examples or len(records)
        self.memory_bytes = _BATCHES * batch_size * Target.of(image_shape, mean, std).bytes
        check_memory(self.memory_bytes, f"batch_size = {batch_size}: the {_BATCHES} batches prepared ahead and in use")
        self.threads = effective_threads(threads)
        self._records, self._batch_size, self._shape, self._seed = records, batch_size, tuple(image_shape), seed
        self._label_width = label_width(records)
        self._parameters = {
            "preprocess_threads": threads, "prefetch_buffer": _PREFETCHED_BATCHES, "label_width": self._label_width,
            **_normalisation(mean, std), **_augmentation(augmentation, image_shape),
        }  # fmt: skip
        if report:
            report("engine", name="mxnet", limits=LIMITS)

    def at(self, epoch: int, position: int, stop: Callable[[], bool] = lambda: False) -> Iterator[Batch]:
        """All batches from that place on. `stop` is there for the interface: this engine cannot be asked in between."""
        place = epoch * self.examples + position
        batch, row = self._empty_batch(place), 0
        for images, labels in self._pieces(place):
            while len(images):
                count = min(len(images), self._batch_size - row)
                batch.images[row : row + count], batch.labels[row : row + count] = images[:count], labels[:count]
                images, labels, row = images[count:], labels[count:], row + count
                if row == self._batch_size:
                    yield batch
                    place += row
                    batch, row = self._empty_batch(place), 0

    def close(self) -> None:
        """Nothing to do: each iterator ends with its last reference."""

    def iterator(self, epoch: int, position: int):
        """MXNet's iterator for an epoch; its order and crops depend on (seed, epoch, position)."""
        seed = int(hashed(self._seed, epoch, position)) % 2**31
        return mx.io.ImageRecordIter(
            path_imgrec=str(self._records.path), path_imgidx=str(index_path(self._records.path)), shuffle=True,
            seed=seed, seed_aug=seed, data_shape=self._shape, batch_size=self._batch_size, round_batch=True,
            verbose=False, **self._parameters,
        )  # fmt: skip

    def _pieces(self, place: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Endless images and labels, cut where epochs end; what fills up a last batch is left out."""
        epoch, position = divmod(place, self.examples)
        while True:
            for batch in self.iterator(epoch, position):
                count = min(self._batch_size - batch.pad, self.examples - position)
                yield batch.data[0].asnumpy()[:count], batch.label[0].asnumpy()[:count]
                position += count
                if position == self.examples:
                    break
            epoch, position = epoch + position // self.examples, position % self.examples

    def _empty_batch(self, place: int) -> Batch:
        size = self._batch_size
        labels = (size,) if self._label_width == 1 else (size, self._label_width)
        return Batch(
            np.empty((size, *self._shape), np.float32), np.empty(labels, np.float32), *divmod(place, self.examples)
        )


def effective_threads(asked: int) -> int:
    """MXNet lowers the number in silence: to half of the processors that the process may use."""
    return min(asked, max(1, len(os.sched_getaffinity(0)) // 2))


def _normalisation(mean: Channels, std: Channels) -> dict[str, float]:
    values = dict(zip(("mean_r", "mean_g", "mean_b"), mean, strict=True))
    return values | dict(zip(("std_r", "std_g", "std_b"), std, strict=True))


def _augmentation(name: str, image_shape: tuple[int, int, int]) -> dict:
    _, height, width = image_shape
    if name == "imagenet":
        return _CROP | _COLOURS
    if name == "crop":
        return _CROP
    if name == "pad":
        return {"resize": max(height, width), "pad": round(height / 8), "rand_crop": True, "rand_mirror": True}
    return {"resize": round(max(height, width) * validation_enlargement(height))}
