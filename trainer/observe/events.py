"""events.jsonl, the log of a run: one JSON object a line, `{"t": unix seconds, "kind": ..., ...}`.

One process writes a file. Readers pass over kinds that they do not know, and over the half-written line that a
killed writer leaves.
"""

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

from trainer.errors import DiskError


class JsonLines:
    """Appends JSON objects to a file, each stamped with the time, each visible to readers at once."""

    def __init__(self, path: Path):
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 (open for the life of the process)
        self._end_half_line()

    def _end_half_line(self) -> None:
        size = self._file.seek(0, 2)
        if size and self._byte_at(size - 1) != b"\n":
            self._file.write(b"\n")

    def _byte_at(self, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(1)

    def write(self, **fields) -> None:
        """One line. Numbers that are not finite become null: NaN is no JSON."""
        fields = {"t": round(time.time(), 3), **fields}
        line = json.dumps(_finite(fields), separators=(",", ":")).encode() + b"\n"
        try:
            self._file.write(line)
        except OSError as error:
            raise DiskError(f"{self._file.name}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        self._file.close()


def event_writer(path: Path):
    """`report(kind, **fields)`, the one callable through which training reports."""
    lines = JsonLines(path)

    def report(kind: str, **fields) -> None:
        lines.write(kind=kind, **fields)

    return report


def read(path: Path) -> Iterator[dict]:
    """The objects of a JSON-lines file, oldest first; a file that is not there has none."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for line in file:
            entry = _parse(line)
            if entry is not None:
                yield entry


def _parse(line: bytes) -> dict | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _finite(value):
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
