"""Every byte of a .rec file looked at: which records are whole, which are not, and whether the index fits.

Works without an index: the magic at a multiple of 4 always starts a part of a record, so after damage the next one
shows where to go on.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainer.data.decode import decode
from trainer.data.framing import FIRST, MAGIC, PART_HEAD, WHOLE, BadRecordError, join_parts, parse_head, unpack_image
from trainer.data.manifest import read_manifest
from trainer.data.ordered import in_threads
from trainer.data.record_writer import partial_name
from trainer.data.records import index_path, read_index, rebuild_hint
from trainer.errors import DataError, DiskError

_SEARCHED_BYTES = 4 << 20

Read = Callable[[int, int], bytes]


class Examined(NamedTuple):
    """One stretch of the file, from where a record starts to where the next does.

    id: from the record's own header, None when that is damaged. reason: what is wrong with the picture or the record.
    stray: where bytes begin that belong to no record, None when there are none.
    """

    start: int
    end: int
    id: int | None
    reason: str | None
    stray: int | None


@dataclass
class Verified:
    """records: how many begin in the file. bad: key, offset, reason of each damaged place. problems: of the file."""

    records: int = 0
    bad: list[dict] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.bad and not self.problems


def verify(
    path: Path,
    *,
    threads: int,
    rebuild_index: bool,
    advance: Callable[[float], None],
    keep: Callable[[int, bytes], None] = lambda _key, _record: None,
) -> Verified:
    """Checks all records of a file, its index and its manifest; makes the index anew when asked to.

    `advance` gets the bytes done; `keep` gets each record that is whole: its key (its own id where the index has none)
    and its bytes, framing and all. DataError when the file cannot be read at all.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            return _verify(path, file.fileno(), threads, rebuild_index, advance, keep)
    except OSError as error:
        raise DataError(f"{path}: must be a RecordIO file, but cannot be read: {error.strerror}") from error


def _verify(
    path: Path, descriptor: int, threads: int, rebuild_index: bool, advance: Callable, keep: Callable
) -> Verified:
    read, size = partial(_read, path, descriptor), os.fstat(descriptor).st_size
    found, ids, starts = Verified(), [], []
    keys = {} if rebuild_index else _keys(path, found)
    for examined in in_threads(partial(_examine, read), _stretches(read, size), threads):
        _note(examined, keys, found)
        if examined.id is not None:
            ids.append(examined.id)
            starts.append(examined.start)
        if examined.id is not None and examined.reason is None:
            end = examined.end if examined.stray is None else examined.stray
            keep(keys.get(examined.start, examined.id), read(examined.start, end - examined.start))
        advance(examined.end - examined.start)
    if rebuild_index and starts:
        write_index(path, ids, starts)
    elif keys:
        _compare_index(path, keys, starts, found)
    _compare_count(path, found)
    return found


def _read(path: Path, descriptor: int, at: int, size: int) -> bytes:
    try:
        return os.pread(descriptor, size, at)
    except OSError as error:
        raise DataError(f"{path}: reading at byte {at} failed: {error.strerror}") from error


def _stretches(read: Read, size: int) -> Iterator[tuple[int, int]]:
    """The file cut at each place where a record starts."""
    before = 0
    for start in _starts(read, size):
        if start > before:
            yield before, start
        before = start
    if before < size:
        yield before, size


def _starts(read: Read, size: int) -> Iterator[int]:
    magic = int.from_bytes(MAGIC, "little")
    for base in range(0, size, _SEARCHED_BYTES):
        data = read(base, _SEARCHED_BYTES)
        for word in np.flatnonzero(np.frombuffer(data, "<u4", len(data) // 4) == magic):
            head = read(base + 4 * int(word), PART_HEAD.size)
            if len(head) < PART_HEAD.size or parse_head(head)[0] in (WHOLE, FIRST):
                yield base + 4 * int(word)


def _examine(read: Read, stretch: tuple[int, int]) -> Examined:
    start, end = stretch
    if read(start, len(MAGIC)) != MAGIC:
        return Examined(start, end, None, None, start)
    record_id, stop = None, end
    try:
        payload, stop = join_parts(read, start, end)
        image = unpack_image(payload)
        record_id = image.id
        decode(image.picture)
        reason = None
    except BadRecordError as error:
        reason = error.reason
    return Examined(start, end, record_id, reason, stop if stop < end else None)


def _note(examined: Examined, keys: dict[int, int], found: Verified) -> None:
    found.records += examined.stray != examined.start
    if examined.reason is not None:
        key = keys.get(examined.start, examined.id)
        found.bad.append({"key": key, "offset": examined.start, "reason": examined.reason})
    if examined.stray is not None:
        reason = f"{examined.end - examined.stray} bytes that belong to no record"
        found.bad.append({"key": keys.get(examined.stray), "offset": examined.stray, "reason": reason})


def _keys(path: Path, found: Verified) -> dict[int, int]:
    """offset -> key from the index; what is wrong with it goes into the problems."""
    try:
        keys, offsets = read_index(path)
    except DataError as error:
        found.problems.append(str(error))
        return {}
    return dict(zip(offsets.tolist(), keys.tolist(), strict=True))


def _compare_index(path: Path, keys: dict[int, int], starts: list[int], found: Verified) -> None:
    known = {*starts, *(bad["offset"] for bad in found.bad)}
    astray, missing = len(keys.keys() - known), len(set(starts) - keys.keys())
    if astray:
        found.problems.append(
            f"{index_path(path)}: at {astray} of its {len(keys)} offsets no record starts: "
            f"it is stale or belongs to another file{rebuild_hint(path)}"
        )
    if missing:
        found.problems.append(
            f"{index_path(path)}: {missing} of {found.records} records are not in it{rebuild_hint(path)}"
        )


def _compare_count(path: Path, found: Verified) -> None:
    if not found.records:
        found.problems.append(f"{path}: holds no records")
    manifest = read_manifest(path)
    if manifest and manifest["records"] != found.records:
        found.problems.append(f"{path}: holds {found.records} records, its manifest counts {manifest['records']}")


def write_index(rec_path: Path, ids: list[int], starts: list[int]) -> None:
    """A new .idx from the records' own ids; from their places when ids repeat, as keys must not."""
    keys = ids if len(set(ids)) == len(ids) else range(len(ids))
    path = index_path(rec_path)
    partial_path = partial_name(path)
    try:
        with open(partial_path, "w", encoding="ascii", newline="\n") as file:
            file.writelines(f"{key}\t{start}\n" for key, start in zip(keys, starts, strict=True))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial_path, path)
    except OSError as error:
        raise DiskError(f"{path}: writing failed: {error.strerror}") from error
