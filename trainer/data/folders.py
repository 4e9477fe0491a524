"""Folders of pictures: DIR/CLASS/picture, or DIR/train/CLASS/picture and DIR/val/CLASS/picture."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainer.errors import DataError

# The ones that MXNet's im2rec takes.
PICTURE_SUFFIXES = (".jpeg", ".jpg", ".png")
# Pictures that cannot be packed: they are refused by name, where other files are only counted.
OTHER_PICTURE_SUFFIXES = (".bmp", ".gif", ".tif", ".tiff", ".webp")
_VALIDATION_NAMES = ("val", "validation", "test")


class PictureFile(NamedTuple):
    """name: its path below the data set's folder. label: the number of its class. size: bytes."""

    name: str
    label: int
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Listing:
    """What a data set's folder holds, in the order of the files' names. ignored: files that are no pictures."""

    classes: list[str]
    train: list[PictureFile]
    val: list[PictureFile]
    ignored: int


def list_folder(root: Path, val_share: float) -> Listing:
    """Classes and pictures below a folder; DataError when they make no data set.

    Without a folder of its own, validation gets `val_share` of each class, at least one picture.
    """
    if not (root / "train").is_dir():
        classes, files, ignored = _list_classes(root, root)
        train, val = split(files, val_share)
        return Listing(classes, train, val, ignored)
    val_root = next((root / name for name in _VALIDATION_NAMES if (root / name).is_dir()), None)
    if val_root is None:
        raise DataError(f"{root}: holds train/, so it must also hold one of {'/, '.join(_VALIDATION_NAMES)}/")
    classes, train, train_ignored = _list_classes(root, root / "train")
    unknown = sorted(set(_folders(val_root)) - set(classes))
    if unknown:
        raise DataError(f"{val_root}: holds classes that {root / 'train'} does not have: {', '.join(unknown)}")
    val, val_ignored = _list_pictures(root, val_root, classes)
    if not val:
        raise DataError(f"{val_root}: holds no pictures ({', '.join(PICTURE_SUFFIXES)}) in its class folders")
    return Listing(classes, train, val, train_ignored + val_ignored)


def split(files: list[PictureFile], val_share: float) -> tuple[list[PictureFile], list[PictureFile]]:
    """Training and validation files; by a hash of the names, so the same everywhere and steady as files are added."""
    chosen: set[str] = set()
    for label in {file.label for file in files}:
        names = sorted((file.name for file in files if file.label == label), key=_hash)
        chosen.update(names[: min(len(names) - 1, max(1, round(val_share * len(names))))])
    return [f for f in files if f.name not in chosen], [f for f in files if f.name in chosen]


def _hash(name: str) -> bytes:
    return hashlib.sha256(os.fsencode(name)).digest()


def _list_classes(root: Path, folder: Path) -> tuple[list[str], list[PictureFile], int]:
    classes = _folders(folder)
    if len(classes) < 2:
        raise DataError(
            f"{folder}: must hold a folder of pictures for each of at least 2 classes, "
            f"holds {', '.join(classes) if classes else 'no folders'}"
        )
    files, ignored = _list_pictures(root, folder, classes)
    empty = sorted(set(range(len(classes))) - {file.label for file in files})
    if empty:
        names = ", ".join(classes[label] for label in empty[:20])
        raise DataError(
            f"{folder}: {len(empty)} of {len(classes)} class folders hold no pictures "
            f"({', '.join(PICTURE_SUFFIXES)}): {names}; fill or remove them"
        )
    return classes, files, ignored


def _folders(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: must be a folder of pictures, but cannot be read: {error.strerror}") from error


def _list_pictures(root: Path, folder: Path, classes: list[str]) -> tuple[list[PictureFile], int]:
    files, ignored = [], sum(not entry.is_dir() for entry in os.scandir(folder))
    for label, name in enumerate(classes):
        if not (folder / name).is_dir():
            continue  # validation may lack a class
        for path in _walk(folder / name):
            status = _status(path)
            is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
            if not is_file or path.suffix.lower() not in PICTURE_SUFFIXES + OTHER_PICTURE_SUFFIXES:
                ignored += 1
            else:
                files.append(PictureFile(os.path.relpath(path, root), label, status.st_size, status.st_mtime_ns))
    return files, ignored


def _walk(folder: Path) -> Iterator[Path]:
    """All files below a folder in the order of im2rec: a folder's files, then its folders, each by name."""
    for where, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        # A link to a folder above would bring everything again, under a wrong class.
        above = {os.path.realpath(parent) for parent in (where, *Path(where).parents)}
        folders[:] = sorted(name for name in folders if os.path.realpath(os.path.join(where, name)) not in above)
        yield from (Path(where, name) for name in sorted(names))


def _raise(error: OSError) -> None:
    raise DataError(f"{error.filename}: cannot be read: {error.strerror}") from error


def _status(path: Path) -> os.stat_result:
    """Of what a link points to; of the link itself when that is not there, which packing then finds unreadable."""
    try:
        return path.stat()
    except OSError:
        return path.lstat()
