"""The volume under the data: whether it is still being read for the first time, when each block is slow.

The role data_volume reads it once, behind training, and writes how far it is into the volume's top directory.
"""

import json
from collections.abc import Callable
from pathlib import Path

MARKER = ".data-volume.json"
WARM_UP = ".data-volume-warm-up.json"


def warm_up(path: Path) -> dict | None:
    """How far the first reading of the volume under `path` is; None when it is done, or nobody does it.

    bytes_read, bytes_total, bytes_per_second, seconds_left: as the role's program wrote them last.
    """
    try:
        top = mount_point(path)
        volume, found = (json.loads((top / name).read_bytes()) for name in (MARKER, WARM_UP))
        # A snapshot brings along the file of the volume that it was taken from.
        return None if found["finished"] or found["volume_id"] != volume["volume_id"] else found
    except (OSError, ValueError, KeyError, TypeError):
        return None


def mount_point(path: Path) -> Path:
    """Where the file system that holds `path` is mounted. OSError."""
    path = path.resolve()
    device = path.stat().st_dev
    while path != path.parent and path.parent.stat().st_dev == device:
        path = path.parent
    return path


def marking_cold(report: Callable[..., None], data_train: Path) -> Callable[..., None]:
    """`report` whose steps say `cold_volume: true` while the volume of that file is being read for the first time."""
    cold = True

    def reporting(kind: str, **fields) -> None:
        nonlocal cold
        if kind == "step" and cold:
            cold = warm_up(data_train) is not None
            fields |= {"cold_volume": True} if cold else {}
        report(kind, **fields)

    return reporting


def words(found: dict) -> str:
    """What `warm_up` found."""
    left = found.get("seconds_left")
    return (
        f"{found.get('bytes_read', 0) / 1e9:.1f} of {found.get('bytes_total', 0) / 1e9:.1f} GB read"
        + ("" if left is None else f", {left:,.0f} s left")
    )
