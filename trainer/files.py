"""Files that appear whole or not at all, and are on disk when they do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """The name to write under; at the block's end the file gets its own name, or is gone if the block failed.

    The process's id keeps two writers out of each other's draft.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        yield draft
        sync(draft)
        os.replace(draft, path)
        sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Readers see the old file or the new one."""
    with draft_of(path) as draft:
        draft.write_text(text, encoding="utf-8")


def remove_stale_drafts(directory: Path) -> None:
    """Removes the drafts of writers that were killed; one of a process that lives may get its name yet."""
    for path in directory.glob(".*.draft"):
        writer = path.name.split(".")[-2]
        if writer.isdecimal() and not Path("/proc", writer).exists():
            path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Waits until a file, or a directory's names, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
