"""What was found is kept, so that the next host of the same kind does not tune again."""

import hashlib
import json
from pathlib import Path

from trainer.config import Config
from trainer.data.manifest import read_manifest
from trainer.files import write_whole
from trainer.host_kind import host_kind


def key_of(config: Config, asked: dict) -> dict[str, object]:
    """What a tuning holds for; `asked`: the options of `tune`."""
    return {
        "host": host_kind(), "devices": list(config.devices), "network": config.network,
        "num_layers": config.num_layers, "image_shape": list(config.image_shape), "precision": config.precision,
        "kvstore": config.kvstore, "input_engine": config.input_engine, "augmentation": config.augmentation,
        "compute_threads": config.compute_threads, "start": [config.batch_size, config.decode_threads],
        "data": _data_set(config.data_train), "asked": asked,
    }  # fmt: skip


def find(directory: Path, key: dict) -> dict | None:
    """The tuning kept for this key; None when there is none, or a file that says something else."""
    try:
        kept = json.loads(_path(directory, key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept["tuning"] if isinstance(kept, dict) and kept.get("key") == key and "tuning" in kept else None


def keep(directory: Path, key: dict, tuning: dict) -> Path:
    """Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    path = _path(directory, key)
    write_whole(path, json.dumps({"key": key, "tuning": tuning}, indent=1) + "\n")
    return path


def _data_set(path: Path) -> str:
    """The manifest's fingerprint of the records, or their size."""
    manifest = read_manifest(path) or {}
    return str(manifest.get("rec_sha256") or f"{path.name}, {path.stat().st_size} bytes")


def _path(directory: Path, key: dict) -> Path:
    return directory / f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]}.json"
