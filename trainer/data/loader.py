"""Batches from records: threads decode ahead of the one that trains."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from contextlib import closing
from functools import partial

import numpy as np

from trainer.data import native
from trainer.data.augment import AUGMENTATIONS, epoch_order, random_numbers
from trainer.data.bad_records import BadRecords
from trainer.data.batch import Batch
from trainer.data.framing import BadRecordError
from trainer.data.memory import check_memory
from trainer.data.records import RecordFile
from trainer.data.source import PICTURES_A_TASK, Source
from trainer.data.target import Channels, Target
from trainer.data.workers import Workers
from trainer.errors import ConfigError

# Enough to bridge a slow batch.
PREFETCHED_BATCHES = 2
# In memory at once: those, the one begun next and the one in use.
_BATCHES = PREFETCHED_BATCHES + 2
_LOOK_SECONDS = 0.5
_TOLD_SECONDS = 10.0

Task = Callable[[], None]
Plan = Iterator[tuple[Batch, list[Task]]]


class TrainLoader:
    """Endless batches: every record once an epoch, in an order that depends on (seed, epoch) only.

    A damaged record is reported once, and the next whole one of the epoch takes its place: the only exception to
    'once'. DataError with the list when they are too many. `examples` is the length of an epoch.

    part: (i, n), the i-th of n workers that train together. Batch by batch each gets its own of the same stream, so all
    take equally many steps, and `examples`, epochs and positions are those of all parts together.
    dtype: "float32" for normalised levels, "uint8" for levels as they are. crop_only: whether to use the crop decoder
    where there is one (`decoder` says which is used). ConfigError when there is less memory than the batches need
    (`memory_bytes`).
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
        bad_record_share: float = 0.001,
        dtype: str = "float32",
        part: tuple[int, int] = (0, 1),
        crop_only: bool = True,
    ):
        if num_examples is not None and num_examples > len(records):
            raise ConfigError(
                f"num_examples must be at most {len(records)}, the records of {records.path}, got {num_examples}"
            )
        self.examples = num_examples or len(records)
        target = Target.of(image_shape, mean, std, dtype)
        self.threads = threads
        self.decoder = native.decoder_name() if crop_only else native.WHOLE
        self.memory_bytes = _BATCHES * batch_size * target.bytes
        check_memory(self.memory_bytes, f"batch_size = {batch_size}: the {_BATCHES} batches prepared ahead and in use")
        self._source = Source(records, target, AUGMENTATIONS[augmentation], batch_size, crop_only)
        self._batch_size, self._seed, self._report, self._part = batch_size, seed, report, part
        self._bad = BadRecords(records, bad_record_share)
        self._workers = Workers(threads)

    def at(self, epoch: int, position: int, stop: Callable[[], bool] = lambda: False) -> Iterator[Batch]:
        """All batches from that place on, the same as if those before it had been taken too.

        They end when there is no data for a while and stop() is true.
        """
        index, count = self._part
        first = epoch * self.examples + position + index * self._batch_size
        plan = self._plan(first, count * self._batch_size)
        for batch in _prefetched(self._workers, plan, stop, self._told_of_waiting):
            for bad in self._bad.news() if self._report else ():
                self._report("bad_record", **bad)
            yield batch

    def close(self) -> None:
        """Ends the threads; what they have not begun is dropped."""
        self._workers.close()

    def _told_of_waiting(self, seconds: float) -> None:
        if self._report:
            self._report("data_wait", seconds=round(seconds, 1), path=str(self._source.records.path))

    def _plan(self, place: int, stride: int) -> Plan:
        while True:
            epoch, position = divmod(place, self.examples)
            batch = self._source.empty_batch(self._batch_size, epoch, position)
            yield batch, list(self._tasks(batch, place))
            place += stride

    def _tasks(self, batch: Batch, place: int) -> Iterator[Task]:
        """Tasks end where an epoch does: each fills rows from one epoch's order."""
        row = 0
        while row < self._batch_size:
            epoch, position = divmod(place + row, self.examples)
            count = min(PICTURES_A_TASK, self._batch_size - row, self.examples - position)
            order = epoch_order(len(self._source.records), self._seed, epoch)
            yield partial(self._fill, batch, row, count, epoch, order, position)
            row += count

    def _fill(self, batch: Batch, row: int, count: int, epoch: int, order: np.ndarray, position: int) -> None:
        numbers = random_numbers(self._seed, epoch, np.arange(position, position + count))
        undone = self._source.fill_crops(batch, row, order[position : position + count], numbers)
        for k in undone:
            self._fill_whole(batch, row + k, order, position + k, numbers[k])

    def _fill_whole(self, batch: Batch, row: int, order: np.ndarray, position: int, numbers: np.ndarray) -> None:
        while True:
            i = order[position % len(order)]
            try:
                return self._source.fill(batch, row, i, numbers)
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
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Batch]:
    """Every record exactly once, in the order of the file, the last batch shorter; DataError at a damaged record.

    They end when there is no data for a while and stop() is true.
    """
    source = Source(records, Target.of(image_shape, mean, std), AUGMENTATIONS["none"], batch_size)
    with closing(Workers(threads)) as workers:
        yield from _prefetched(workers, _validation_plan(source, batch_size), stop)


def _validation_plan(source: Source, batch_size: int) -> Plan:
    total = len(source.records)
    for start in range(0, total, batch_size):
        batch = source.empty_batch(min(batch_size, total - start), 0, start)
        rows = range(0, len(batch.images), PICTURES_A_TASK)
        yield batch, [partial(source.fill_in_order, batch, row) for row in rows]


def _prefetched(
    workers: Workers, plan: Plan, stop: Callable[[], bool] = lambda: False, told: Callable[[float], None] | None = None
) -> Iterator[Batch]:
    """The plan's batches in its order, PREFETCHED_BATCHES of them made ahead; raises what a task raised."""
    started: deque[tuple[Batch, list[Future]]] = deque()
    try:
        for batch, tasks in plan:
            started.append((batch, [workers.submit(task) for task in tasks]))
            if len(started) > PREFETCHED_BATCHES:
                if not _finished(started[0][1], stop, told):
                    return
                yield started.popleft()[0]
        while started:
            if not _finished(started[0][1], stop, told):
                return
            yield started.popleft()[0]
    finally:
        for _, futures in started:
            for future in futures:
                future.cancel()


def _finished(futures: list[Future], stop: Callable[[], bool], told: Callable[[float], None] | None) -> bool:
    """Waits for all; False when asked to stop before. Tells of a long wait, ever less often."""
    began, next_told = time.monotonic(), _TOLD_SECONDS
    for future in futures:
        while True:
            try:
                future.result(_LOOK_SECONDS)
                break
            except NotDone:
                if future.done():
                    raise
            waited = time.monotonic() - began
            if stop():
                return False
            if told and waited >= next_told:
                told(waited)
                next_told *= 2
    return True
