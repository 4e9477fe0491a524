"""A checkpoint as files, whatever is in them: its names, what is whole, how it appears and vanishes. Needs no MXNet.

    checkpoints/<step>-<validations>/   ...              what trainer.learn.checkpoint and state.json say
                                        checksums.json   SHA-256 of each of the others
    checkpoints/....unfinished/         being written, brought here or removed; a killed process's leftovers

It is whole when its files are those that checksums.json names, as they were written.
"""

import hashlib
import json
import re
import shutil
import time
from pathlib import Path

from trainer.files import sync, write_whole
from trainer.run import Run

UNFINISHED = ".unfinished"
CHECKSUMS = "checksums.json"
_NAME = re.compile(r"\d{8,}-\d+")


def directories(run: Run) -> list[Path]:
    """Everything with a checkpoint's name, whole or not; what else lies there is nobody's business."""
    return sorted(path for path in run.checkpoints.glob("*") if _NAME.fullmatch(path.name) and path.is_dir())


def damage_of(directory: Path) -> str | None:
    """What is wrong with its files, in words; None when they are whole."""
    try:
        if checksums(directory) != json.loads((directory / CHECKSUMS).read_text()):
            return "its files are not the ones that were written: the checksums differ"
    except (OSError, ValueError) as error:
        return f"it is not complete: {error}"
    return None


def checksums(directory: Path) -> dict[str, str]:
    """SHA-256 of every file but checksums.json, by name."""
    return {path.name: sha256(path) for path in sorted(directory.iterdir()) if path.name != CHECKSUMS}


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(directory: Path) -> None:
    write_whole(directory / CHECKSUMS, json.dumps(checksums(directory), indent=1))


def unfinished(final: Path) -> Path:
    """The name of a checkpoint while it is not whole."""
    return final.with_name(final.name + UNFINISHED)


def publish(final: Path) -> None:
    """Gives an unfinished directory, all of which is on disk, its own name; one with that name (damaged) goes."""
    if final.exists():
        remove(final)
    unfinished(final).rename(final)
    sync(final.parent)


def remove(path: Path) -> None:
    """Under another name first: whoever is killed in the middle leaves nothing that looks like a checkpoint.

    OSError when that fails. What cannot be deleted yet (a network disk keeps a file that somebody reads) is a leftover,
    whose name nobody else needs.
    """
    doomed = path.with_name(f"{path.name}.{time.time_ns()}{UNFINISHED}")
    path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_unfinished(run: Run) -> None:
    """Leftovers go as far as they can."""
    for path in run.checkpoints.glob("*" + UNFINISHED):
        shutil.rmtree(path, ignore_errors=True)
