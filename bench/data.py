"""What is measured: the JPEGs of the folder that KIT_BENCH_DATA names, or pictures made on the spot."""

import os
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from trainer.data.augment import scale
from trainer.data.decode import decode
from trainer.data.record_writer import RecordWriter

_MADE = 200


def record_files(folder: Path) -> tuple[Path, Path]:
    """Two .rec files of the same pictures: as they are, and re-encoded with a short side of at most 256 px."""
    original, small = folder / "original.rec", folder / "short-side-256.rec"
    with RecordWriter(original) as first, RecordWriter(small) as second:
        for key, picture in enumerate(_pictures()):
            first.write(key, 0.0, picture)
            second.write(key, 0.0, _resized(picture))
        first.publish()
        second.publish()
    return original, small


def _pictures() -> Iterator[bytes]:
    folder = os.environ.get("KIT_BENCH_DATA")
    if folder:
        yield from (path.read_bytes() for path in sorted(Path(folder).glob("*.jp*g")))
    else:
        yield from map(_made, range(_MADE))


def _made(number: int) -> bytes:
    """500 x 375 with detail at several scales: about 100 KB, as ImageNet's."""
    generator = np.random.default_rng(number)
    layers = [
        cv2.resize(generator.integers(0, most, (375 // cell, 500 // cell, 3), np.uint8), (500, 375))
        for cell, most in ((40, 150), (8, 70), (2, 34))
    ]
    return simplejpeg.encode_jpeg(np.sum(layers, 0, dtype=np.uint8), 90, "RGB", "444")


def _resized(picture: bytes) -> bytes:
    image = decode(picture)
    factor = min(1.0, 256 / min(image.shape[:2]))
    height, width = (round(side * factor) for side in image.shape[:2])
    return simplejpeg.encode_jpeg(np.ascontiguousarray(scale(image, height, width)), 95, "RGB", "420")
