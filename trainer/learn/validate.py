"""Top-1, top-5 and loss over a whole validation set, each record counted exactly once."""

import time
from collections.abc import Callable

import numpy as np
from mxnet import gluon, nd

from trainer.config import Config
from trainer.data.loader import validation_batches
from trainer.data.records import RecordFile
from trainer.learn.model import build_network
from trainer.learn.parameters import current_values

CONFUSION_CLASSES = 20


class Validator:
    """Validates the network in training by way of a copy.

    The copy is the model that would be exported now, and it keeps inference away from the weights in training: on the
    CPU, MXNet turns the weights of an inference into oneDNN's layout in place, after which training rounds differently
    from one time to the next.
    """

    def __init__(self, config: Config, contexts: list):
        self._config, self._contexts = config, contexts
        self._copy = build_network(config)
        self._copy.initialize(ctx=contexts)
        self._copy.hybridize(static_alloc=True)

    def validate(self, network, records: RecordFile, stop: Callable[[], bool]) -> dict | None:
        """The fields of a `validation` event; None when `stop()`, asked at each batch, was true before the end."""
        parameters = self._copy.collect_params()
        for name, array in current_values(network).items():
            parameters[name].set_data(array)
        return _validate(self._copy, records, self._config, self._contexts, stop)


def _validate(network, records: RecordFile, config: Config, contexts: list, stop: Callable[[], bool]) -> dict | None:
    """Every forward pass has the training batch's shape (the last one is filled up and cut), so that a static network
    plans its memory once."""
    started = time.monotonic()
    tally = _Tally(config.num_classes, config.top_k)
    for batch in validation_batches(
        records, batch_size=config.batch_size, image_shape=config.image_shape, mean=config.mean, std=config.std,
        threads=config.decode_threads, stop=stop,
    ):
        if stop():
            return None
        tally.add(_forward(network, batch.images, config.batch_size, contexts), first_label(batch.labels))
    if tally.records < len(records):  # asked to stop while there was no data
        return None
    return tally.result() | {"seconds": round(time.monotonic() - started, 3)}


def first_label(labels: np.ndarray) -> np.ndarray:
    """Class numbers [n] from labels [n] or [n, label_width]: a vector's first place is the class."""
    return labels.reshape(len(labels), -1)[:, 0].astype(np.int64)


def _forward(network, images: np.ndarray, batch_size: int, contexts: list) -> np.ndarray:
    filled = np.zeros((batch_size, *images.shape[1:]), np.float32)
    filled[: len(images)] = images
    parts = gluon.utils.split_and_load(nd.array(filled), contexts)
    outputs = [network(part) for part in parts]
    return np.concatenate([output.astype("float32").asnumpy() for output in outputs])[: len(images)]


class _Tally:
    """Sums over the batches of one validation."""

    def __init__(self, num_classes: int, top_k: int):
        self.top_k = min(top_k, num_classes)
        self.records = self.top1 = self.top5 = self.top = 0
        self.loss = 0.0
        self.confusion = np.zeros((num_classes, num_classes), np.int64) if num_classes <= CONFUSION_CLASSES else None

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """outputs [n, classes] before softmax, labels [n]."""
        target = outputs[np.arange(len(labels)), labels]
        # The rank counts equal outputs as better, so that a network that has gone constant scores nothing.
        rank = (outputs >= target[:, None]).sum(axis=1)
        self.records += len(labels)
        # Outputs that are no numbers give no rank at all, and so no hit.
        self.top1 += int((rank == 1).sum())
        self.top5 += int(((rank >= 1) & (rank <= 5)).sum())
        self.top += int(((rank >= 1) & (rank <= self.top_k)).sum())
        highest = outputs.max(axis=1)
        self.loss += float((highest + np.log(np.exp(outputs - highest[:, None]).sum(axis=1)) - target).sum())
        if self.confusion is not None:
            np.add.at(self.confusion, (labels, outputs.argmax(axis=1)), 1)

    def result(self) -> dict:
        shares = {"top1": self.top1, "top5": self.top5, f"top{self.top_k}": self.top}
        result = {key: round(count / self.records, 6) for key, count in shares.items()}
        result |= {"records": self.records, "loss": round(self.loss / self.records, 6)}
        if self.confusion is not None:
            result["confusion"] = self.confusion.tolist()
        return result
