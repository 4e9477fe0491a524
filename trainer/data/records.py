"""RecordIO files of images: `NAME.rec` holds the records, `NAME.idx` one `key<TAB>offset` line for each.

A part of a record is the magic, a word (upper 3 bits: which part, lower 29: its bytes), the bytes, zeros up to a
multiple of 4. dmlc-core, whose format this is, cuts a record wherever its bytes hold the magic at a multiple of 4
and leaves those 4 bytes out: so the magic at such a place always starts a part, and readers can find their way again.
"""

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainer.data.manifest import read_manifest
from trainer.errors import DataError

MAGIC = struct.pack("<I", 0xCED7230A)
PART_HEAD = struct.Struct("<4sI")
IMAGE_HEADER = struct.Struct("<IfQQ")  # number of extra labels, the one label, id, second id
LENGTH_BITS = 29
LENGTH_MASK = (1 << LENGTH_BITS) - 1
WHOLE, FIRST, MIDDLE, LAST = 0, 1, 2, 3

_INDEX = re.compile(rb"(?:\d{1,18}\t\d{1,18}\r?\n)*+(?:\d{1,18}\t\d{1,18})?+")
_READ_AHEAD_BYTES = 1 << 20
# A cold network disk gives some 3,000 reads a second: so many of them must do to tell a foreign index.
_OFFSETS_CHECKED = 16_384


class BadRecordError(DataError):
    """One record that cannot be used; `reason` says why in words."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Image(NamedTuple):
    """What a record holds: its labels as float32 [label_width], its id, the picture's bytes."""

    labels: np.ndarray
    id: int
    picture: bytes


def unpack_image(payload: bytes) -> Image:
    """The parts of an image record; BadRecordError when it is too short for its own header."""
    if len(payload) < IMAGE_HEADER.size:
        raise BadRecordError(f"the record has {len(payload)} bytes, too few for an image header")
    extra, label, record_id, _ = IMAGE_HEADER.unpack_from(payload)
    start = IMAGE_HEADER.size + 4 * extra
    if start > len(payload):
        raise BadRecordError(f"the header announces {extra} labels, more than the record holds")
    if not extra:
        return Image(np.array([label], np.float32), record_id, payload[start:])
    return Image(np.frombuffer(payload, "<f4", extra, IMAGE_HEADER.size), record_id, payload[start:])


class RecordFile:
    """The records of one file in the order of the file; `read` may be called from several threads at once.

    keys: int64 [records], as the index has them. offsets: int64 [records], rising.
    """

    def __init__(self, path: Path, keys: np.ndarray, offsets: np.ndarray):
        self.path, self.keys, self.offsets = path, keys, offsets
        self._descriptor = os.open(path, os.O_RDONLY)
        self._ends = np.append(offsets[1:], os.fstat(self._descriptor).st_size)

    def __len__(self) -> int:
        return len(self.offsets)

    def read(self, i: int) -> tuple[np.ndarray, bytes]:
        """Labels (float32 [label_width]) and picture bytes of record i; BadRecordError when it is damaged."""
        image = unpack_image(self.payload(i))
        return image.labels, image.picture

    def payload(self, i: int) -> bytes:
        """The bytes of record i, of all its parts; BadRecordError when it is damaged."""
        offset, end = int(self.offsets[i]), int(self._ends[i])
        try:
            data = os.pread(self._descriptor, min(end - offset, _READ_AHEAD_BYTES), offset)
            part, length = parse_head(data[: PART_HEAD.size])
            if part == WHOLE and PART_HEAD.size + length <= len(data):
                return data[PART_HEAD.size : PART_HEAD.size + length]
            return join_parts(lambda at, size: os.pread(self._descriptor, size, at), offset, end)[0]
        except OSError as error:
            raise BadRecordError(f"reading failed: {error.strerror}") from error

    def labels(self, i: int) -> np.ndarray:
        """The labels of record i; cheaper than `read` for the usual record of one label."""
        head = self._pread(PART_HEAD.size + IMAGE_HEADER.size, int(self.offsets[i]))
        if len(head) == PART_HEAD.size + IMAGE_HEADER.size and parse_head(head[: PART_HEAD.size])[0] == WHOLE:
            extra, label, _, _ = IMAGE_HEADER.unpack_from(head, PART_HEAD.size)
            if not extra:
                return np.array([label], np.float32)
        return self.read(i)[0]

    def close(self) -> None:
        os.close(self._descriptor)

    def _pread(self, size: int, offset: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise DataError(f"{self.path}: reading at byte {offset} failed: {error.strerror}") from error


def parse_head(head: bytes) -> tuple[int, int]:
    """Which part of a record starts here, and its bytes; BadRecordError when none does."""
    if len(head) < PART_HEAD.size:
        raise BadRecordError("the file ends inside the record")
    magic, word = PART_HEAD.unpack(head)
    if magic != MAGIC:
        raise BadRecordError(f"no record starts here (found {magic.hex()}, the magic is {MAGIC.hex()})")
    return word >> LENGTH_BITS, word & LENGTH_MASK


def padded(length: int) -> int:
    """The bytes that a part of this length takes, without its head."""
    return (length + 3) & ~3


def join_parts(read: Callable[[int, int], bytes], offset: int, end: int) -> tuple[bytes, int]:
    """The bytes of the record at `offset`, and where the next one starts.

    `read(offset, size)` reads the file; nothing beyond `end` belongs to the record. BadRecordError when it is damaged.
    """
    pieces: list[bytes] = []
    while True:
        part, length = parse_head(read(offset, PART_HEAD.size))
        if part not in ((MIDDLE, LAST) if pieces else (WHOLE, FIRST)):
            raise BadRecordError(f"a part of kind {part} at byte {offset} is out of place")
        start, offset = offset + PART_HEAD.size, offset + PART_HEAD.size + padded(length)
        if offset > end:
            raise BadRecordError(f"the record claims {length} bytes, {offset - end} more than there are")
        pieces.append(read(start, length))
        if part in (WHOLE, LAST):
            return MAGIC.join(pieces), offset


def index_path(rec_path: Path) -> Path:
    return rec_path.with_suffix(".idx")


def open_records(path: Path) -> RecordFile:
    """The records of a file, checked without reading it all: index, record heads, the end, the manifest's count.

    DataError says what is wrong and what to do.
    """
    size = _size_of(path, "a RecordIO file")
    keys, offsets = read_index(path)
    _check_offsets(path, offsets, size)
    records = RecordFile(path, keys, offsets)
    try:
        _check_heads(records)
        _check_end(records, size)
        _check_manifest(records)
    except BaseException:
        records.close()
        raise
    return records


def read_index(rec_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Keys and offsets (int64, sorted by offset) from the .idx beside a .rec; DataError when it is unusable."""
    path = index_path(rec_path)
    _size_of(path, "the index of a RecordIO file", rebuild_hint(rec_path))
    text = path.read_bytes()
    if not _INDEX.fullmatch(text):
        line = 1 + next(n for n, row in enumerate(text.split(b"\n")) if not _INDEX.fullmatch(row.rstrip(b"\r")))
        raise DataError(f"{path}: line {line} must be a key, a tab and an offset{rebuild_hint(rec_path)}")
    pairs = np.fromstring(text, np.int64, sep=" ").reshape(-1, 2)
    pairs = pairs[np.argsort(pairs[:, 1], kind="stable")]
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


def rebuild_hint(rec_path: Path) -> str:
    return f"; a new index can be made with: python -m trainer check {rec_path} --rebuild-index"


def spread(count: int, most: int) -> np.ndarray:
    """At most `most` of the numbers below `count`: evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _size_of(path: Path, what: str, hint: str = "") -> int:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise DataError(f"{path}: must be {what}, but cannot be read: {error.strerror}{hint}") from error
    if not size:
        raise DataError(f"{path}: must be {what}, but is empty{hint}")
    return size


def _check_offsets(path: Path, offsets: np.ndarray, size: int) -> None:
    wrong = (offsets % 4 != 0) | (offsets > size - PART_HEAD.size)
    wrong[1:] |= offsets[1:] == offsets[:-1]
    if wrong.any():
        offset = int(offsets[wrong.argmax()])
        raise DataError(
            f"{index_path(path)}: offset {offset} must be a multiple of 4, given once and inside {path.name} "
            f"({size} bytes): the index belongs to another file, or {path.name} was cut{rebuild_hint(path)}"
        )


def _check_heads(records: RecordFile) -> None:
    for i in spread(len(records), _OFFSETS_CHECKED):
        offset = int(records.offsets[i])
        if records._pread(len(MAGIC), offset) != MAGIC:
            raise DataError(
                f"{records.path}: no record starts at byte {offset}, where {index_path(records.path).name} "
                f"has key {records.keys[i]}: the index is stale or foreign, or the file is damaged"
                f"{rebuild_hint(records.path)}"
            )


def _check_end(records: RecordFile, size: int) -> None:
    path, start = records.path, int(records.offsets[-1])
    try:
        end = join_parts(lambda at, length: records._pread(length, at), start, size)[1]
    except BadRecordError as error:
        raise DataError(
            f"{path}: the last record (byte {start}) is not whole: {error}. The file was cut or is still being "
            f"copied: copy or pack it again (python -m trainer check {path} lists what is damaged)"
        ) from error
    if end != size:
        raise DataError(
            f"{path}: {size - end} bytes follow the last record that {index_path(path).name} names "
            f"(it ends at byte {end}): the index is older than the file{rebuild_hint(path)}"
        )


def _check_manifest(records: RecordFile) -> None:
    manifest = read_manifest(records.path)
    if manifest and manifest["records"] != len(records):
        raise DataError(
            f"{records.path}: the index names {len(records)} records, the manifest "
            f"{records.path.with_suffix('.json').name} counts {manifest['records']}: they belong to different files"
        )
