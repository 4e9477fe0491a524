"""A data set before packing: its classes and pictures, and how each picture becomes the bytes of a record."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import simplejpeg

from trainer.data.augment import scale
from trainer.data.decode import check_picture, decode
from trainer.data.folders import Listing, PictureFile, list_folder
from trainer.data.framing import IMAGE_HEADER, LENGTH_MASK, PART_HEAD, BadRecordError
from trainer.data.idx import SPLITS, class_names, idx_files, is_idx_folder, read_pictures
from trainer.data.imagenet import ImageNet, TarPicture, is_imagenet_folder, read_imagenet
from trainer.data.tars import read_member

# Of small pictures (28 px): off by at most 4 of 255 levels, and an eighth smaller than quality 100.
IDX_QUALITY = 98
# What a record takes beside its picture.
_RECORD_BYTES = PART_HEAD.size + IMAGE_HEADER.size + 3


@dataclass(frozen=True)
class Options:
    """resize: the short side in pixels that larger pictures are scaled to, None to keep each file's own bytes."""

    resize: int | None = None
    quality: int = 95
    val_share: float = 0.1


class IdxPicture(NamedTuple):
    """name: where it stands in its IDX file. pixels: uint8 [height, width]."""

    name: str
    label: int
    pixels: np.ndarray

    @property
    def size(self) -> int:
        """The most bytes that its JPEG takes."""
        return self.pixels.nbytes + 1000


Picture = PictureFile | IdxPicture | TarPicture


@dataclass(frozen=True)
class DataSet:
    """train, val: the pictures in the order of their keys. load: a picture's bytes; BadRecordError or OSError.

    fingerprint changes when a file, its size, its time or an option does. most_bytes: what the records take at most.
    files: whether the pictures are files, which a .lst can name.
    """

    classes: list[str]
    train: Iterable[Picture]
    val: Iterable[Picture]
    load: Callable[[Picture], bytes]
    fingerprint: str
    most_bytes: int
    ignored: int
    files: bool


def find_data_set(source: Path, options: Options) -> DataSet:
    """What a folder holds: the IDX files of MNIST and its kin, ImageNet's tars, or class folders; else DataError."""
    if is_idx_folder(source):
        return _idx_data_set(source)
    return _tar_data_set(source, options) if is_imagenet_folder(source) else _folder_data_set(source, options)


def _folder_data_set(root: Path, options: Options) -> DataSet:
    listing = list_folder(root, options.val_share)
    load = _with_options(partial(_read, root), options)
    sizes = sum(file.size + _RECORD_BYTES for file in listing.train + listing.val)
    print_of_all = _folder_fingerprint(root, listing, options)
    return DataSet(listing.classes, listing.train, listing.val, load, print_of_all, sizes, listing.ignored, files=True)


def _tar_data_set(folder: Path, options: Options) -> DataSet:
    found = read_imagenet(folder)
    load = _with_options(_read_from_tar, options)
    # A member's own header and padding are more than a record's.
    sizes = sum(part.tar.stat().st_size for part in (found.train, found.val))
    print_of_all = _tar_fingerprint(found, options)
    return DataSet(found.classes, found.train, found.val, load, print_of_all, sizes, 0, files=False)


def _tar_fingerprint(found: ImageNet, options: Options) -> str:
    statuses = [part.tar.stat() for part in (found.train, found.val)]
    files = [(status.st_size, status.st_mtime_ns) for status in statuses]
    parts = [found.classes, found.val.labels, files, options.resize, options.quality]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _folder_fingerprint(root: Path, listing: Listing, options: Options) -> str:
    digest = hashlib.sha256(json.dumps([str(root.resolve()), listing.classes, vars(options)]).encode())
    for part in (listing.train, listing.val):
        for file in part:
            digest.update(b"%s\0%d\0%d\n" % (os.fsencode(file.name), file.size, file.mtime_ns))
        digest.update(b"\n")
    return digest.hexdigest()


def _read(root: Path, file: PictureFile) -> bytes:
    if any(character in file.name for character in "\t\r\n"):
        raise BadRecordError("its name holds a tab or a line break, which a .lst cannot hold")
    with open(root / file.name, "rb", buffering=0) as stream:
        return _checked(stream.read())


def _read_from_tar(member: TarPicture) -> bytes:
    return _checked(read_member(member.tar, member.start, member.size))


def _checked(picture: bytes) -> bytes:
    if len(picture) > LENGTH_MASK - IMAGE_HEADER.size:
        raise BadRecordError(f"it has {len(picture)} bytes, a record holds {LENGTH_MASK - IMAGE_HEADER.size}")
    check_picture(picture)
    return picture


def _with_options(read: Callable[[Picture], bytes], options: Options) -> Callable[[Picture], bytes]:
    return read if options.resize is None else partial(_read_resized, read, options)


def _read_resized(read: Callable[[Picture], bytes], options: Options, item: Picture) -> bytes:
    """The picture with its short side scaled down; its own bytes when it is no larger."""
    picture = read(item)
    image = decode(picture)
    height, width = image.shape[:2]
    factor = options.resize / min(height, width)
    if factor >= 1:
        return picture
    image = scale(image, round(height * factor), round(width * factor))
    return simplejpeg.encode_jpeg(np.ascontiguousarray(image), options.quality, "RGB", "420")


def _idx_data_set(folder: Path) -> DataSet:
    paths = {split: idx_files(folder, prefix) for split, prefix in SPLITS.items()}
    pictures = {split: _idx_pictures(*pair) for split, pair in paths.items()}
    most_bytes = sum(picture.size + _RECORD_BYTES for part in pictures.values() for picture in part)
    print_of_all = _idx_fingerprint([path for pair in paths.values() for path in pair])
    classes = class_names(paths["train"][1])
    return DataSet(classes, pictures["train"], pictures["val"], _encode, print_of_all, most_bytes, 0, files=False)


def _idx_pictures(images: Path, labels: Path) -> list[IdxPicture]:
    pixels, numbers = read_pictures(images, labels)
    return [
        IdxPicture(f"{images.name}[{i}]", label, picture)
        for i, (label, picture) in enumerate(zip(numbers.tolist(), pixels, strict=True))
    ]


def _idx_fingerprint(paths: list[Path]) -> str:
    statuses = [path.stat() for path in paths]
    lines = [f"{path.resolve()} {s.st_size} {s.st_mtime_ns}" for path, s in zip(paths, statuses, strict=True)]
    return hashlib.sha256("\n".join([*lines, str(IDX_QUALITY)]).encode()).hexdigest()


def _encode(picture: IdxPicture) -> bytes:
    return simplejpeg.encode_jpeg(picture.pixels[..., None], IDX_QUALITY, "GRAY")
