"""The manifest beside a .rec file, NAME.json: what is in it, what was left out, what it was made from."""

import json
from pathlib import Path

from trainer.errors import DataError


def manifest_path(rec_path: Path) -> Path:
    return rec_path.with_suffix(".json")


def read_manifest(rec_path: Path) -> dict | None:
    """The manifest of a .rec file, None when there is none; DataError when it is no manifest.

    Keys: records, label_width, classes, class_counts, rec_sha256, idx_sha256, rec_bytes, rejected, source,
    fingerprint, version.
    """
    path = manifest_path(rec_path)
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: must be the manifest of {rec_path.name}, but cannot be read: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("records"), int):
        raise DataError(
            f"{path}: must be the manifest of {rec_path.name} with a count of records; "
            "remove it if it is something else"
        )
    return manifest
