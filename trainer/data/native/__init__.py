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


_SOURCE = np.dtype([("address", np.uintp), ("offset", np.int64), ("size", np.int64)])


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
    loaded.measure.restype = loaded.render.restype = None
    return loaded


def decoder_name() -> str:
    """Which decoder training uses on this machine."""
    return CROPS if library() else WHOLE


class Sources:
    """Pictures for the decoder: in memory, or in a file's records, which it reads itself, one at a time."""

    def __init__(self, c_sources: np.ndarray, descriptor: int, held: Sequence[bytes] = ()):
        self._sources, self._descriptor, self._held = c_sources, descriptor, held

    @classmethod
    def in_memory(cls, pictures: Sequence[bytes]) -> "Sources":
        sources = np.zeros(len(pictures), _SOURCE)
        sources["address"] = [np.frombuffer(picture, np.uint8).ctypes.data for picture in pictures]
        sources["size"] = [len(picture) for picture in pictures]
        return cls(sources, -1, pictures)

    @classmethod
    def in_file(cls, descriptor: int, offsets: np.ndarray, sizes: np.ndarray) -> "Sources":
        """Records by where they begin and what they take, both int64 [n]."""
        sources = np.zeros(len(offsets), _SOURCE)
        sources["offset"], sources["size"] = offsets, sizes
        return cls(sources, descriptor)

    def measure(self, labels: np.ndarray) -> np.ndarray:
        """int32 [n, 2], the pictures' heights and widths; 1 and 1 for those that `render` will leave undone.

        Puts the records' labels into labels, float32 [n] or [n, label_width], wherever their number is right.
        """
        assert labels.flags.c_contiguous and labels.dtype == np.float32
        sizes = np.empty((len(self._sources), 2), np.int32)
        width = labels[0].size
        library().measure(
            self._descriptor, len(sizes), _address(self._sources), width, _address(labels), _address(sizes)
        )
        return sizes

    def render(self, views: Views, target: Target, out: np.ndarray) -> np.ndarray:
        """Writes the views into out [n, 3, height, width]; bool [n]: which are done. Lets other threads run meanwhile.

        Undone are records that are not one part, pictures of other kinds, and those with damage in or above their crop,
        or without an end.
        """
        count = len(self._sources)
        assert out.flags.c_contiguous and out.dtype == target.dtype
        assert out.shape == (count, 3, target.height, target.width)
        done = np.empty(count, np.uint8)
        boxes, flips = np.ascontiguousarray(views.boxes, np.int32), np.ascontiguousarray(views.flips, np.uint8)
        changes = None if views.changes is None else np.ascontiguousarray(views.changes, np.float32)
        library().render(
            self._descriptor, count, _address(self._sources), _address(boxes), _address(flips),
            None if changes is None else _address(changes), ctypes.byref(_c_target(target)), _address(out),
            _address(done),
        )  # fmt: skip
        return done.astype(bool)


def _c_target(target: Target) -> _Target:
    floats = ctypes.c_float * 3
    return _Target(
        target.height, target.width, target.dtype == np.uint8, floats(*target.scale), floats(*target.offset)
    )


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
