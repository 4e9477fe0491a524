"""Tar files read in place: where each file's bytes lie, so that nothing has to be unpacked."""

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trainer.errors import DataError

_BLOCK = 512


class Member(NamedTuple):
    """name: in the archive. start, size: the bytes of its content, counted from the start of the outermost file."""

    name: str
    start: int
    size: int


def members(path: Path, start: int = 0, size: int | None = None) -> Iterator[Member]:
    """The files in an archive, or in one that is itself a member of it, as they come.

    DataError when it is no tar file, or cut, or damaged: Python's own reader takes either for its end.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            end = os.fstat(file.fileno()).st_size if size is None else start + size
            file.seek(start)
            with tarfile.open(fileobj=file, mode="r:") as archive:
                yield from _members(path, archive, end)
                if file.seek(archive.offset) + _BLOCK > end or file.read(_BLOCK) != bytes(_BLOCK):
                    raise DataError(f"{path}: must be a whole tar file, but is cut or damaged at byte {archive.offset}")
    except tarfile.TarError as error:
        raise DataError(f"{path}: must be a tar file, but cannot be read at byte {start}: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: must be a tar file, but cannot be read: {error.strerror}") from error


def _members(path: Path, archive: tarfile.TarFile, end: int) -> Iterator[Member]:
    for entry in archive:
        if entry.offset_data + entry.size > end:
            raise DataError(f"{path}: must be a whole tar file, but is cut inside {entry.name}")
        if entry.isfile():
            yield Member(entry.name, entry.offset_data, entry.size)


def read_member(path: Path, start: int, size: int) -> bytes:
    """The bytes of a member; OSError."""
    with open(path, "rb", buffering=0) as file:
        return os.pread(file.fileno(), size, start)
