"""The crop decoder: C on libjpeg-turbo's own interface, built where a compiler is (`python -m trainer.data.native`).

Without it the kit decodes whole pictures with simplejpeg and OpenCV: slower, the same to everybody else.
"""

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trainer.data.augment import Views
from trainer.data.native.build import library_path
from trainer.data.target import Target


CROPS, WHOLE = "libjpeg-turbo, crops only", "simplejpeg and OpenCV, whole pictures"


class _Target(ctypes.Structure):
    _fields_ = [
        ("height", ctypes.c_int32), ("width", ctypes.c_int32), ("as_bytes", ctypes.c_int32),
        ("scale", ctypes.c_float * 3), ("offset", ctypes.c_float * 3),
    ]  # fmt: skip


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The built decoder; None when there is none that works here."""
    try:
        return load(library_path())
    except OSError:
        return None


def load(path: Path) -> ctypes.CDLL:
    """The library in a file; OSError."""
    loaded = ctypes.CDLL(str(path))
    loaded.jpeg_sizes.restype = loaded.render_crops.restype = None
    return loaded


def decoder_name() -> str:
    """Which decoder training uses on this machine."""
    return CROPS if library() else WHOLE


def jpeg_sizes(pictures: Sequence[bytes]) -> np.ndarray:
    """int32 [n, 2], height and width of each picture, 1 and 1 where `render` would leave it undone."""
    sizes = np.empty((len(pictures), 2), np.int32)
    library().jpeg_sizes(len(pictures), *_bytes(pictures), _address(sizes))
    return np.maximum(sizes, 1)


def render(pictures: Sequence[bytes], views: Views, target: Target, out: np.ndarray) -> np.ndarray:
    """Writes the views of whole JPEGs into out [n, 3, height, width]; bool [n]: which are done.

    Undone are pictures of other kinds, and those with damage in or above their crop, or no end. Lets other threads run.
    """
    assert out.flags.c_contiguous and out.dtype == target.dtype
    assert out.shape == (len(pictures), 3, target.height, target.width)
    done = np.empty(len(pictures), np.uint8)
    boxes, flips = np.ascontiguousarray(views.boxes, np.int32), np.ascontiguousarray(views.flips, np.uint8)
    changes = None if views.changes is None else np.ascontiguousarray(views.changes, np.float32)
    library().render_crops(
        len(pictures), *_bytes(pictures), _address(boxes), _address(flips),
        None if changes is None else _address(changes), ctypes.byref(_c_target(target)), _address(out), _address(done),
    )  # fmt: skip
    return done.astype(bool)


def _c_target(target: Target) -> _Target:
    floats = ctypes.c_float * 3
    return _Target(
        target.height, target.width, target.dtype == np.uint8, floats(*target.scale), floats(*target.offset)
    )


def _bytes(pictures: Sequence[bytes]) -> tuple[ctypes.Array, ctypes.Array]:
    count = len(pictures)
    return (ctypes.c_char_p * count)(*pictures), (ctypes.c_size_t * count)(*map(len, pictures))


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
