"""The newest lines of a JSON-lines file, without reading all of it again."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from trainer.observe.events import parse

_BLOCK_BYTES = 1 << 16


def read_last(path: Path, count: int) -> list[dict]:
    """The last `count` objects, oldest first; a file that is not there has none."""
    return _objects(_last_lines(path, count)[1])


def _last_lines(path: Path, count: int) -> tuple[int, list[bytes]]:
    """Where the last `count` lines begin in the file, and the lines."""
    if not path.exists():
        return 0, []
    with open(path, "rb") as file:
        end, block = file.seek(0, 2), b""
        while end and block.count(b"\n") <= count:
            begin = max(0, end - _BLOCK_BYTES)
            file.seek(begin)
            block, end = file.read(end - begin) + block, begin
    lines = block.splitlines(keepends=True)
    return end + sum(map(len, lines[:-count])), lines[-count:]


class Follower:
    """Gives what was appended to a file since the last look.

    A file that another one has replaced (a log that is brought from the mirror) is read from its beginning: forget() is
    called before, and what was given so far holds no longer.
    newest: the first look passes over all lines but so many.
    """

    def __init__(self, path: Path, forget: Callable[[], None] = lambda: None, newest: int | None = None):
        self._path, self._forget = path, forget
        self._place = 0 if newest is None else _last_lines(path, newest)[0]
        self._file: tuple[int, int] | None = None

    def new(self, most_bytes: int = -1) -> list[dict]:
        """Whole lines only: a half-written one comes with the next look. A file that is not there has none.

        Of a long file, `most_bytes` at a look (and the rest of a line) keep memory small.
        """
        try:
            with open(self._path, "rb") as file:
                self._notice_another(os.fstat(file.fileno()))
                file.seek(self._place)
                block = file.read(most_bytes)
                block += file.readline() if len(block) == most_bytes else b""
        except FileNotFoundError:
            return []
        whole = block[: block.rfind(b"\n") + 1]
        self._place += len(whole)
        return _objects(whole.splitlines())

    def _notice_another(self, found: os.stat_result) -> None:
        file = (found.st_dev, found.st_ino)
        if self._file not in (None, file):
            self._place = 0
            self._forget()
        self._file = file

    def share(self) -> float:
        """The part of the file that has been given, 0-1."""
        size = self._path.stat().st_size if self._path.exists() else 0
        return min(self._place / size, 1.0) if size else 1.0


def _objects(lines: Iterable[bytes]) -> list[dict]:
    return [entry for line in lines if (entry := parse(line)) is not None]
