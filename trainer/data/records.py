"""Reads RecordIO files of images: `NAME.rec` holds the records, `NAME.idx` one `key<TAB>offset` line for each."""

import os
import re
from pathlib import Path

import numpy as np

from trainer.data.framing import (
    IMAGE_HEADER,
    MAGIC,
    PART_HEAD,
    WHOLE,
    BadRecordError,
    join_parts,
    parse_head,
    unpack_image,
)
from trainer.data.manifest import read_manifest
from trainer.data.native import Sources
from trainer.errors import DataError

_LINE = rb"\d{1,18}\t\d{1,18}"
_INDEX = re.compile(rb"(?:%b\r?\n)*+(?:%b\r?)?+" % (_LINE, _LINE))
_READ_AHEAD_BYTES = 1 << 20
# A cold network disk gives some 3,000 reads a second: so many of them must do to tell a foreign index.
_OFFSETS_CHECKED = 16_384


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

    def sources(self, records: np.ndarray) -> Sources:
        """These records, for the crop decoder to read."""
        offsets = self.offsets[records]
        return Sources.in_file(self._descriptor, offsets, self._ends[records] - offsets)

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
            raise BadRecordError(f"reading {self.path} at byte {offset} failed: {error.strerror}") from error

    def labels(self, i: int) -> np.ndarray:
        """The labels of record i; cheaper than `read` for the usual record of one label. BadRecordError."""
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
        line = 1 + next(n for n, row in enumerate(text.split(b"\n")) if not re.fullmatch(_LINE + rb"\r?", row))
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
