"""Pictures to RecordIO: NAME.rec, its index, the list that MXNet's im2rec packs the same from, and the manifest."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trainer import __version__
from trainer.data.data_set import DataSet, Options, Picture, find_data_set
from trainer.data.framing import BadRecordError
from trainer.data.manifest import manifest_path, read_manifest
from trainer.data.ordered import in_threads
from trainer.data.record_writer import RecordWriter, partial_name
from trainer.data.records import index_path
from trainer.errors import DataError, DiskError

Advance = Callable[[int], None]
Progress = Callable[[int], AbstractContextManager[Advance]]


@dataclass(frozen=True)
class Packed:
    """changed: whether anything was written. ignored: files that are no pictures."""

    changed: bool
    train: dict
    val: dict
    ignored: int


def pack(source: Path, out: Path, options: Options, threads: int, progress: Progress) -> Packed:
    """Packs a data set into train.* and val.* in `out`; not the one that was packed from the same files before.

    Damaged pictures are left out and listed in the manifests (`rejected`). `progress` gets the bytes to read.
    DataError, DiskError. A file has its final name only once it is whole.
    """
    data_set = find_data_set(source, options)
    recs = {"train": out / "train.rec", "val": out / "val.rec"}
    before = {name: _unchanged(rec, data_set) for name, rec in recs.items()}
    if all(before.values()):
        return Packed(False, before["train"], before["val"], data_set.ignored)
    try:
        _make_room(out, data_set)
        with progress(data_set.most_bytes) as advance:
            after = {
                name: before[name] or _write(rec, getattr(data_set, name), data_set, source, threads, advance)
                for name, rec in recs.items()
            }
    except OSError as error:
        raise DiskError(f"{error.filename or out}: writing failed: {error.strerror}") from error
    return Packed(True, after["train"], after["val"], data_set.ignored)


def _unchanged(rec: Path, data_set: DataSet) -> dict | None:
    """The manifest of what an earlier run made from the same files, if that is still there."""
    try:
        manifest = read_manifest(rec)
        if manifest and manifest.get("fingerprint") == data_set.fingerprint:
            same = rec.stat().st_size == manifest["rec_bytes"] and index_path(rec).stat().st_size
            return manifest if same else None
    except (DataError, OSError):
        pass  # packing again puts it right
    return None


def _make_room(out: Path, data_set: DataSet) -> None:
    out.mkdir(parents=True, exist_ok=True)
    needed, free = data_set.most_bytes, shutil.disk_usage(out).free
    if needed > free:
        raise DiskError(f"{out}: packing needs up to {needed / 1e6:,.0f} MB free there, got {free / 1e6:,.0f} MB")


def _write(
    rec: Path, items: Iterable[Picture], data_set: DataSet, source: Path, threads: int, advance: Advance
) -> dict[str, Any]:
    """One .rec with all that belongs to it; the manifest goes first and comes last, as it vouches for the others."""
    manifest_path(rec).unlink(missing_ok=True)
    names: dict[int, str] = {}
    labels: dict[int, int] = {}
    rejected: list[dict] = []
    with RecordWriter(rec) as writer:
        for key, (item, picture, reason) in enumerate(in_threads(partial(_load, data_set.load), items, threads)):
            if picture is None:
                rejected.append({"file": item.name, "reason": reason})
            else:
                writer.write(key, item.label, picture)
                names[key], labels[key] = item.name, item.label
            advance(item.size)
        if not writer.records:
            raise DataError(
                f"{source}: none of the {len(rejected)} pictures for {rec.name} is whole"
                + (", the first: {file}: {reason}".format(**rejected[0]) if rejected else "")
            )
        writer.publish()
    if data_set.files:
        _write_list(rec.with_suffix(".lst"), names, labels)
    manifest = _manifest(writer, Counter(labels.values()), rejected, data_set, source)
    _publish_text(manifest_path(rec), [json.dumps(manifest, indent=1) + "\n"])
    return manifest


def _manifest(
    writer: RecordWriter, counts: Counter, rejected: list[dict], data_set: DataSet, source: Path
) -> dict[str, Any]:
    return {
        "records": writer.records,
        "label_width": 1,
        "classes": data_set.classes,
        "class_counts": [counts[label] for label in range(len(data_set.classes))],
        **writer.digests,
        "rec_bytes": writer.bytes,
        "rejected": rejected,
        "source": str(source.resolve()),
        "fingerprint": data_set.fingerprint,
        "version": __version__,
    }


def _write_list(path: Path, names: dict[int, str], labels: dict[int, int]) -> None:
    _publish_text(path, (f"{key}\t{labels[key]:f}\t{name}\n" for key, name in names.items()))


def _publish_text(path: Path, lines: Iterable[str]) -> None:
    unfinished = partial_name(path)
    with open(unfinished, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def _load(load: Callable[[Picture], bytes], item: Picture) -> tuple[Picture, bytes | None, str]:
    try:
        return item, load(item), ""
    except BadRecordError as error:
        return item, None, error.reason
    except OSError as error:
        return item, None, error.strerror
