"""The newest lines of a JSON-lines file, without reading all of it again."""

from collections.abc import Iterable
from pathlib import Path

from trainer.observe.events import parse

_BLOCK_BYTES = 1 << 16


def read_last(path: Path, count: int) -> list[dict]:
    """The last `count` objects, oldest first; a file that is not there has none."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        end, block = file.seek(0, 2), b""
        while end and block.count(b"\n") <= count:
            begin = max(0, end - _BLOCK_BYTES)
            file.seek(begin)
            block, end = file.read(end - begin) + block, begin
    return _objects(block.splitlines()[-count:])


class Follower:
    """Gives what was appended to a file since the last look."""

    def __init__(self, path: Path):
        self._path, self._place = path, 0

    def new(self) -> list[dict]:
        """Whole lines only: a half-written one comes with the next look. A file that is not there has none."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._place)
                block = file.read()
        except FileNotFoundError:
            return []
        whole = block[: block.rfind(b"\n") + 1]
        self._place += len(whole)
        return _objects(whole.splitlines())


def _objects(lines: Iterable[bytes]) -> list[dict]:
    return [entry for line in lines if (entry := parse(line)) is not None]
