"""The checkpoints of a run directory, as the mirror sees them: files that it copies and checks, and never loads."""

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from trainer.checkpoint_files import CHECKSUMS, damage_of, directories, sha256
from trainer.run import Run
from trainer.spot.owner import Copy, FileName

_CHECKSUMS = TypeAdapter(dict[FileName, str])


@dataclass(frozen=True)
class Checkpoint:
    """A complete directory here and what its copy is called over there."""

    path: Path
    copy: Copy
    checksums: dict[str, str]  # SHA-256 by file name, checksums.json's own included


def checkpoints(run: Run) -> list[Checkpoint]:
    """Newest first. Their arrays are not read; one that vanishes is left out."""
    found = [checkpoint for path in directories(run) if (checkpoint := _checkpoint(path))]
    return sorted(found, key=lambda checkpoint: checkpoint.copy.position, reverse=True)


def fingerprint(run: Run) -> frozenset:
    """Changes whenever a checkpoint comes or goes; empty when there is none."""
    found = set()
    for path in directories(run):
        with suppress(FileNotFoundError):
            found.add((path.name, path.stat().st_ino))
    return frozenset(found)


def newest_whole(run: Run) -> Checkpoint | None:
    """The newest checkpoint here whose files are the ones that were written."""
    return next((one for one in checkpoints(run) if damage_of(one.path) is None), None)


def is_file_whole(path: Path, checksum: str) -> bool:
    """Whether a file is there and has that SHA-256."""
    try:
        return sha256(path) == checksum
    except OSError:
        return False


def read_checksums(text: bytes) -> dict[str, str]:
    """SHA-256 by file name, checksums.json's own included; ValueError when it is something else."""
    return {**_CHECKSUMS.validate_json(text), CHECKSUMS: hashlib.sha256(text).hexdigest()}


def directory_of(name: str, checksums: dict[str, str]) -> str:
    """What a checkpoint with these files is called over there."""
    return f"{name}-{checksums[CHECKSUMS][:16]}"


def _checkpoint(path: Path) -> Checkpoint | None:
    try:
        checksums = read_checksums((path / CHECKSUMS).read_bytes())
        progress = json.loads((path / "state.json").read_bytes())["progress"]
        copy = Copy(
            name=path.name, directory=directory_of(path.name, checksums), step=progress["step"],
            validated_epochs=progress["validated_epochs"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Checkpoint(path, copy, checksums)
