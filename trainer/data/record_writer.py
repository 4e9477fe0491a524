"""Writes a .rec file and its index, byte for byte as MXNet's own writer does (dmlc-core, RecordIOWriter)."""

import hashlib
import os
from pathlib import Path

from trainer.data.framing import (
    FIRST,
    IMAGE_HEADER,
    LAST,
    LENGTH_BITS,
    LENGTH_MASK,
    MAGIC,
    MIDDLE,
    PART_HEAD,
    WHOLE,
    padded,
)
from trainer.data.records import index_path


class RecordWriter:
    """Writes records under temporary names; `publish` gives both files their final names.

    Used as a context manager, so that whatever ends the block early takes the temporary files away.
    """

    def __init__(self, rec_path: Path):
        self._names = {partial_name(path): path for path in (rec_path, index_path(rec_path))}
        rec, idx = self._names
        self._rec = open(rec, "wb", buffering=1 << 20)  # noqa: SIM115 (closed by publish and __exit__)
        self._idx = open(idx, "wb", buffering=1 << 20)  # noqa: SIM115
        self._rec_hash, self._idx_hash = hashlib.sha256(), hashlib.sha256()
        self.bytes = 0
        self.records = 0

    def write(self, key: int, label: float, picture: bytes) -> None:
        """Appends one picture with one label; its key goes into the index and the record's id."""
        self.write_framed(key, *frame(IMAGE_HEADER.pack(0, label, key, 0) + picture))

    def write_framed(self, key: int, *pieces: bytes) -> None:
        """Appends a record that has its framing already."""
        line = b"%d\t%d\n" % (key, self.bytes)
        self._idx.write(line)
        self._idx_hash.update(line)
        for piece in pieces:
            self._rec.write(piece)
            self._rec_hash.update(piece)
            self.bytes += len(piece)
        self.records += 1

    @property
    def digests(self) -> dict[str, str]:
        return {"rec_sha256": self._rec_hash.hexdigest(), "idx_sha256": self._idx_hash.hexdigest()}

    def publish(self) -> None:
        """Puts both files on the disk, then under their final names."""
        for file in (self._rec, self._idx):
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for partial, final in self._names.items():
            os.replace(partial, final)

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._rec, self._idx):
            file.close()
        for partial in self._names:
            partial.unlink(missing_ok=True)


def partial_name(path: Path) -> Path:
    """The name that a file has until it is whole."""
    return path.with_name(f".{path.name}.partial")


def frame(payload: bytes) -> list[bytes]:
    """The pieces that a record is in the file: a head and bytes for each part, then the padding."""
    if len(payload) > LENGTH_MASK:
        raise ValueError(f"a record holds at most {LENGTH_MASK} bytes, got {len(payload)}")
    pieces, start = [], 0
    for cut in _magic_positions(payload):
        pieces += [PART_HEAD.pack(MAGIC, (MIDDLE if start else FIRST) << LENGTH_BITS | cut - start), payload[start:cut]]
        start = cut + len(MAGIC)
    length = len(payload) - start
    pieces.append(PART_HEAD.pack(MAGIC, (LAST if start else WHOLE) << LENGTH_BITS | length))
    pieces.append(payload[start:] if start else payload)
    pieces.append(bytes(padded(length) - length))
    return pieces


def _magic_positions(payload: bytes) -> list[int]:
    positions, at = [], payload.find(MAGIC)
    while at >= 0:
        if at % 4 == 0:
            positions.append(at)
        at = payload.find(MAGIC, at + (4 if at % 4 == 0 else 1))
    return positions
