"""Small pictures that a small network can learn, made on the spot."""

import numpy as np
import simplejpeg

from trainer.data.record_writer import RecordWriter

CLASSES = 4
PIXELS = 28


def picture(label: int, seed: int, pixels: int = PIXELS) -> bytes:
    """A JPEG whose class is where its bright square stands, under noise."""
    generator = np.random.default_rng(seed)
    image = generator.integers(0, 120, (pixels, pixels, 3), dtype=np.uint8)
    half = pixels // 2
    top, left = divmod(label, 2)
    image[top * half : (top + 1) * half, left * half : (left + 1) * half] += 100
    return simplejpeg.encode_jpeg(image, quality=90)


def write_records(path, count: int, seed: int = 0):
    with RecordWriter(path) as writer:
        for number in range(count):
            writer.write(number, float(number % CLASSES), picture(number % CLASSES, seed * 100_000 + number))
        writer.publish()
    return path
