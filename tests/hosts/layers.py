"""What hosts are clones of: the bare image, and the one with MXNet on it."""

import hashlib
from pathlib import Path

import host as hosts
import image
from plays import PROJECT, play


def bare() -> list[Path]:
    base = image.base()
    with image.locked("sweep"):
        hosts.sweep()
    return [base]


def with_mxnet() -> list[Path]:
    """Made by the role mxnet_runtime (minutes, once; kept in .kit/hosts/)."""
    [base] = bare()
    sources = [PROJECT / "requirements.txt", *sorted((PROJECT / "roles/mxnet_runtime").rglob("*.[py]*"))]
    made_from = base.name.encode() + b"".join(path.read_bytes() for path in sources if path.suffix != ".pyc")
    layer = image.HOSTS / f"runtime-{hashlib.sha256(made_from).hexdigest()[:12]}"
    with image.locked("runtime"):
        if not layer.exists():
            _make(layer, base)
    return [layer, base]


def _make(layer: Path, base: Path) -> None:
    image.remove_old("runtime-*")
    booted = hosts.up([base])
    done = play(booted, ["mxnet_runtime"], {})
    hosts.down(booted, keep_upper=layer if done.code == 0 else None)
    assert done.code == 0, done.output
