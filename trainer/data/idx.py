"""The IDX files of MNIST and its kin: a magic, the dimensions, then plain bytes; often gzipped."""

import gzip
import hashlib
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from trainer.errors import DataError

SPLITS = {"train": "train", "val": "t10k"}

# Fashion-MNIST (Xiao et al. 2017) has MNIST's file names; its training labels tell it from the others.
_FASHION_LABELS_SHA256 = "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
_FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def is_idx_folder(folder: Path) -> bool:
    return any(_candidates(folder, "train", "images"))


def idx_files(folder: Path, prefix: str) -> tuple[Path, Path]:
    """The files of pictures and of labels; DataError names the one that is missing."""
    return _file(folder, prefix, "images"), _file(folder, prefix, "labels")


def _candidates(folder: Path, prefix: str, what: str) -> list[Path]:
    name = f"{prefix}-{what}-idx{3 if what == 'images' else 1}-ubyte"
    return [folder / (name + suffix) for suffix in ("", ".gz") if (folder / (name + suffix)).is_file()]


def _file(folder: Path, prefix: str, what: str) -> Path:
    found = _candidates(folder, prefix, what)
    if not found:
        raise DataError(f"{folder}: must hold {prefix}-{what}-idx{3 if what == 'images' else 1}-ubyte (or .gz)")
    return found[0]


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """uint8 array of that many dimensions; DataError when the file is none, or damaged."""
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: must be an IDX file, but cannot be read: {error}; fetch it again") from error
    start = 4 + 4 * dimensions
    if data[:4] != bytes((0, 0, 8, dimensions)) or len(data) < start:
        raise DataError(
            f"{path}: must be an IDX file of bytes in {dimensions} dimensions "
            f"(starting with {bytes((0, 0, 8, dimensions)).hex()}), starts with {data[:4].hex() or 'nothing'}"
        )
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    if len(data) - start != math.prod(shape):
        raise DataError(
            f"{path}: must hold {math.prod(shape)} bytes for {' x '.join(map(str, shape))}, "
            f"holds {len(data) - start}; fetch it again"
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_pictures(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    """Pictures uint8 [n, height, width] and labels uint8 [n]; DataError."""
    pictures, numbers = read_idx(images, 3), read_idx(labels, 1)
    if len(pictures) != len(numbers) or not pictures.size:
        raise DataError(
            f"{images} and {labels}: must hold as many pictures as labels, more than none, "
            f"hold {len(pictures)} of {pictures.shape[1]} x {pictures.shape[2]} and {len(numbers)}"
        )
    return pictures, numbers


def class_names(train_labels: Path) -> list[str]:
    """Fashion-MNIST's names for its labels, else the numbers themselves."""
    labels = read_idx(train_labels, 1)
    header = struct.pack(">II", 0x801, len(labels))
    if hashlib.sha256(header + labels.tobytes()).hexdigest() == _FASHION_LABELS_SHA256:
        return list(_FASHION_CLASSES)
    return [str(number) for number in range(int(labels.max(initial=1)) + 1)]
