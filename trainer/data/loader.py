"""Batches from records: threads decode ahead of the one that trains."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from trainer.data.augment import AUGMENTATIONS, epoch_order, random_numbers, validation_crop
from trainer.data.bad_records import BadRecords, describe
from trainer.data.buffers import Buffers
from trainer.data.decode import decode
from trainer.data.framing import BadRecordError
from trainer.data.labels import label_width
from trainer.data.records import RecordFile
from trainer.data.target import Channels, Target
from trainer.errors import ConfigError, DataError

# Enough to bridge a slow batch. Memory: these, the one begun next and the one in use.
PREFETCHED_BATCHES = 2
_PICTURES_A_TASK = 16

Task = Callable[[], None]


@dataclass(frozen=True)
class Batch:
    """images: float32 [n, 3, height, width], normalised. labels: float32 [n], or [n, label_width] when wider than 1.

    position: where its first record stands in the order of the epoch.
    """

    images: np.ndarray
    labels: np.ndarray
    epoch: int
    position: int


class Source:
    """One file's records, as rows of batches."""

    def __init__(self, records: RecordFile, target: Target, batch_size: int):
        self.records, self.target = records, target
        self._buffers = Buffers((batch_size, 3, target.height, target.width))
        self._label_width = label_width(records)

    def empty_batch(self, count: int, epoch: int, position: int) -> Batch:
        labels = (count,) if self._label_width == 1 else (count, self._label_width)
        return Batch(self._buffers.take()[:count], np.empty(labels, np.float32), epoch, position)

    def read(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels and decoded picture of record i; BadRecordError."""
        labels, picture = self.records.read(i)
        if len(labels) != self._label_width:
            raise BadRecordError(f"the record has {len(labels)} labels, the first of the file {self._label_width}")
        return labels, decode(picture)

    def write(self, labels: np.ndarray, image: np.ndarray, batch: Batch, row: int) -> None:
        """Puts a picture that has its final size into the batch."""
        batch.labels[row] = labels if self._label_width > 1 else labels[0]
        self.target.write(image, batch.images[row])


class TrainLoader:
    """Endless batches: every record once an epoch, in an order that depends on (seed, epoch) only.

    A damaged record is reported once, and the next whole one of the epoch takes its place: the only exception to
    'once'. DataError with the list when they are too many. `examples` is the length of an epoch.
    """

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
        self._source = Source(records, Target.of(image_shape, mean, std), batch_size)
        self._augment = AUGMENTATIONS[augmentation]
        self._batch_size, self._seed, self._report = batch_size, seed, report
        self._bad = BadRecords(records)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")

    def at(self, epoch: int, position: int) -> Iterator[Batch]:
        """All batches from that place on, the same as if those before it had been taken too."""
        for batch in _prefetched(self._pool, self._plan(epoch * self.examples + position)):
            for bad in self._bad.news() if self._report else ():
                self._report("bad_record", **bad)
            yield batch

    def close(self) -> None:
        """Ends the threads; what they have not begun is dropped."""
        self._pool.shutdown(cancel_futures=True)

    def _plan(self, place: int) -> Iterator[tuple[Batch, list[Task]]]:
        while True:
            epoch, position = divmod(place, self.examples)
            batch = self._source.empty_batch(self._batch_size, epoch, position)
            yield batch, list(self._tasks(batch, place))
            place += self._batch_size

    def _tasks(self, batch: Batch, place: int) -> Iterator[Task]:
        """Tasks end where an epoch does: each fills rows from one epoch's order."""
        row = 0
        while row < self._batch_size:
            epoch, position = divmod(place + row, self.examples)
            count = min(_PICTURES_A_TASK, self._batch_size - row, self.examples - position)
            order = epoch_order(len(self._source.records), self._seed, epoch)
            yield partial(self._fill, batch, row, count, epoch, order, position)
            row += count

    def _fill(self, batch: Batch, row: int, count: int, epoch: int, order: np.ndarray, position: int) -> None:
        source, target = self._source, self._source.target
        numbers = random_numbers(self._seed, epoch, np.arange(position, position + count))
        for k in range(count):
            labels, image = self._whole(order, position + k)
            source.write(labels, self._augment(image, target.height, target.width, numbers[k]), batch, row + k)

    def _whole(self, order: np.ndarray, position: int) -> tuple[np.ndarray, np.ndarray]:
        while True:
            i = order[position % len(order)]
            try:
                return self._source.read(i)
            except BadRecordError as error:
                self._bad.add(i, error)  # ends the loop: it raises before all are bad
            position += 1


def validation_batches(
    records: RecordFile,
    *,
    batch_size: int,
    image_shape: tuple[int, int, int],
    mean: Channels,
    std: Channels,
    threads: int,
) -> Iterator[Batch]:
    """Every record exactly once, in the order of the file, the last batch shorter; DataError at a damaged record."""
    source = Source(records, Target.of(image_shape, mean, std), batch_size)
    pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")
    try:
        yield from _prefetched(pool, _validation_plan(source, batch_size))
    finally:
        pool.shutdown(cancel_futures=True)


def _validation_plan(source: Source, batch_size: int) -> Iterator[tuple[Batch, list[Task]]]:
    total = len(source.records)
    for start in range(0, total, batch_size):
        batch = source.empty_batch(min(batch_size, total - start), 0, start)
        rows = range(0, len(batch.images), _PICTURES_A_TASK)
        yield batch, [partial(_fill_in_order, source, batch, row) for row in rows]


def _fill_in_order(source: Source, batch: Batch, first_row: int) -> None:
    target = source.target
    for row in range(first_row, min(first_row + _PICTURES_A_TASK, len(batch.images))):
        i = batch.position + row
        try:
            labels, image = source.read(i)
        except BadRecordError as error:
            bad = describe(source.records, i, error.reason)
            raise DataError(
                f"{source.records.path}: the record with key {bad['key']} at byte {bad['offset']} is damaged "
                f"({error.reason}), and validation must see every record: pack the file again"
            ) from error
        source.write(labels, validation_crop(image, target.height, target.width), batch, row)


def _prefetched(pool: ThreadPoolExecutor, plan: Iterator[tuple[Batch, list[Task]]]) -> Iterator[Batch]:
    """The plan's batches in its order, PREFETCHED_BATCHES of them made ahead; raises what a task raised."""
    started: deque[tuple[Batch, list[Future]]] = deque()
    try:
        for batch, tasks in plan:
            started.append((batch, [pool.submit(task) for task in tasks]))
            if len(started) > PREFETCHED_BATCHES:
                yield _finished(*started.popleft())
        while started:
            yield _finished(*started.popleft())
    finally:
        for _, futures in started:
            for future in futures:
                future.cancel()


def _finished(batch: Batch, futures: list[Future]) -> Batch:
    for future in futures:
        future.result()
    return batch
