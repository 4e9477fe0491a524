"""Writes a .rec file and its index, byte for byte as MXNet's own writer does (dmlc-core, RecordIOWriter)."""

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
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

_CHUNK_BYTES = 1 << 20


class RecordWriter:
    """Writes records under temporary names; `publish` gives both files their final names.

    Used as a context manager, so that whatever ends the block early takes the temporary files away.
    """

    def __init__(self, rec_path: Path):
        self._names = {partial_name(path): path for path in (rec_path, index_path(rec_path))}
        self._rec, self._idx = (_HashedFile(partial) for partial in self._names)
        self.bytes = 0
        self.records = 0

    def write(self, key: int, label: float, picture: bytes) -> None:
        """Appends one picture with one label; its key goes into the index and the record's id."""
        self.write_framed(key, *frame(IMAGE_HEADER.pack(0, label, key, 0) + picture))

    def write_framed(self, key: int, *pieces: bytes) -> None:
        """Appends a record that has its framing already."""
        self._idx.write([b"%d\t%d\n" % (key, self.bytes)])
        self.bytes += self._rec.write(list(pieces))
        self.records += 1

    @property
    def digests(self) -> dict[str, str]:
        """After `publish`."""
        return {"rec_sha256": self._rec.digest(), "idx_sha256": self._idx.digest()}

    def publish(self) -> None:
        """Puts both files on the disk, then under their final names."""
        self._rec.finish()
        self._idx.finish()
        for partial, final in self._names.items():
            os.replace(partial, final)

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._rec.close()
        self._idx.close()
        for partial in self._names:
            partial.unlink(missing_ok=True)


class _HashedFile:
    """A file in the writing and its SHA-256, which a thread computes while the next megabyte is gathered."""

    def __init__(self, path: Path):
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 (closed by close)
        self._sha256 = hashlib.sha256()
        self._pieces: list[bytes] = []
        self._gathered = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sha256")
        self._hashed: Future | None = None

    def write(self, pieces: list[bytes]) -> int:
        size = sum(map(len, pieces))
        self._pieces += pieces
        self._gathered += size
        if self._gathered >= _CHUNK_BYTES:
            self._flush()
        return size

    def finish(self) -> None:
        self._flush()
        self._wait()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._thread.shutdown()
        self._file.close()

    def digest(self) -> str:
        return self._sha256.hexdigest()

    def _flush(self) -> None:
        chunk = memoryview(b"".join(self._pieces))
        self._pieces, self._gathered = [], 0
        self._wait()
        self._hashed = self._thread.submit(self._sha256.update, chunk)
        while chunk:
            chunk = chunk[self._file.write(chunk) :]

    def _wait(self) -> None:
        if self._hashed is not None:
            self._hashed.result()


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
