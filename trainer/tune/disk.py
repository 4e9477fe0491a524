"""The disk alone: records read in a random order, none of them from memory; and whether the volume is cold.

A volume made from a snapshot fetches each block at its first reading: the second reading of the same records is many
times faster then.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from trainer.data.records import read_index

_STRETCH_SECONDS = 2.0
_RECORDS_AT_ONCE = 256
# As many reads at once as training has at most.
_READERS = 16
# A first reading this much slower than the second, slower than any disk that one would train from, and long enough to
# be no accident.
_COLD_FACTOR = 3.0
_COLD_MB_PER_SECOND = 60.0
_COLD_SECONDS = 0.3


class _Reader:
    """Reads records of a file from the disk, several at once."""

    def __init__(self, path: Path, descriptor: int, pool: ThreadPoolExecutor):
        offsets = read_index(path)[1]
        ends = np.append(offsets[1:], os.fstat(descriptor).st_size)
        self._spans = np.stack([offsets, ends - offsets], axis=1)
        self._descriptor, self._pool = descriptor, pool
        self._order = self._endless_order()

    def next_records(self) -> list[int]:
        return [next(self._order) for _ in range(min(_RECORDS_AT_ONCE, len(self._spans)))]

    def megabytes(self, records: list[int]) -> float:
        return sum(self._pool.map(self._read, records)) / 1e6

    def _endless_order(self) -> Iterator[int]:
        generator = np.random.default_rng()
        while True:
            yield from generator.permutation(len(self._spans)).tolist()

    def _read(self, i: int) -> int:
        """The bytes of a record, after the system was told to forget them."""
        offset, size = map(int, self._spans[i])
        os.posix_fadvise(self._descriptor, offset, size, os.POSIX_FADV_DONTNEED)
        return len(os.pread(self._descriptor, size, offset))


@contextmanager
def _reader(path: Path) -> Iterator[_Reader]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            yield _Reader(path, descriptor, pool)
    finally:
        os.close(descriptor)


def disk_rates(path: Path) -> Iterator[float]:
    """images/s, one for each stretch of two seconds. DataError."""
    with _reader(path) as reader:
        while True:
            began, images = time.monotonic(), 0
            while time.monotonic() - began < _STRETCH_SECONDS:
                records = reader.next_records()
                reader.megabytes(records)
                images += len(records)
            yield images / (time.monotonic() - began)


def is_cold(path: Path) -> bool:
    """Reads some records twice; True when the first time took much longer. DataError."""
    with _reader(path) as reader:
        records, began = reader.next_records(), time.monotonic()
        megabytes = reader.megabytes(records)
        first = time.monotonic() - began
        reader.megabytes(records)
        second = time.monotonic() - began - first
    return first > max(_COLD_SECONDS, _COLD_FACTOR * second) and megabytes / first < _COLD_MB_PER_SECOND
