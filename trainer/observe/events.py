"""events.jsonl, the log of a run: one JSON object a line, `{"t": unix seconds, "n": 1, 2, ..., "kind": ..., ...}`.

One process writes a file. Readers pass over kinds that they do not know, and over the half-written line that a
killed writer or a full disk leaves. A gap in `n` is events that were lost; the `lost` of the next one counts them.
"""

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from trainer.errors import DiskError

_TAIL_BYTES = 1 << 16


class JsonLines:
    """Appends JSON objects to a file, each stamped with the time, each visible to readers at once."""

    def __init__(self, path: Path):
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 (open for the life of the process)
        size = self._file.seek(0, 2)
        self._half_line = bool(size) and self._byte_at(size - 1) != b"\n"

    def _byte_at(self, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(1)

    def write(self, **fields) -> None:
        """One line. Numbers that are not finite become null: NaN is no JSON. DiskError."""
        fields = {"t": round(time.time(), 3), **fields}
        line = json.dumps(_finite(fields), separators=(",", ":")).encode() + b"\n"
        if self._half_line:
            line = b"\n" + line
        try:
            written = self._file.write(line)
        except OSError as error:
            raise DiskError(f"{self._file.name}: cannot be written: {error.strerror}") from error
        if written < len(line):  # a disk that fills up takes what it can
            self._half_line = True
            raise DiskError(f"{self._file.name}: cannot be written: the disk took {written} of {len(line)} bytes")
        self._half_line = False

    def close(self) -> None:
        self._file.close()


def event_writer(path: Path):
    """`report(kind, **fields)`, the one callable through which training reports; any thread may.

    Events have the numbers `n` = 1, 2, ..., which continue over restarts. A full disk does not end training: the event
    is lost, and the next one that can be written has the count of those before it as `lost`.
    """
    last = _last_number(path)
    lines, lock, lost = JsonLines(path), threading.Lock(), 0

    def report(kind: str, **fields) -> None:
        nonlocal last, lost
        with lock:
            last += 1
            try:
                lines.write(n=last, kind=kind, **fields, **({"lost": lost} if lost else {}))
                lost = 0
            except DiskError:
                lost += 1

    return report


def newest(path: Path, *kinds: str) -> dict | None:
    """The newest event (of these kinds); None when there is none. Reads no more of the file's end than it must."""
    if not path.exists():
        return None
    with open(path, "rb") as file:
        size, tail = file.seek(0, 2), _TAIL_BYTES
        while True:
            start = file.seek(max(0, size - tail))
            lines = file.read(size - start).splitlines()
            for line in reversed(lines[1:] if start else lines):  # the first one may have begun before
                event = parse(line)
                if event and (not kinds or event.get("kind") in kinds):
                    return event
            if not start:
                return None
            tail *= 4


def read(path: Path) -> Iterator[dict]:
    """The objects of a JSON-lines file, oldest first; a file that is not there has none."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for line in file:
            entry = parse(line)
            if entry is not None:
                yield entry


def parse(line: bytes) -> dict | None:
    """The object in a line; None when it is half-written or none of ours."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _last_number(path: Path) -> int:
    """0 when there is none. Logs from before there were numbers count their lines."""
    number = (newest(path) or {}).get("n")
    return number if isinstance(number, int) else sum(1 for _ in read(path))


def _finite(value):
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
