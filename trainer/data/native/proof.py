"""Shows that a freshly built crop decoder works, in a process of its own: `python -m ...proof LIBRARY`."""

import sys
from pathlib import Path

import numpy as np
import simplejpeg

from trainer.data import native
from trainer.data.augment import Views
from trainer.data.target import Target


def prove(path: Path) -> None:
    """AssertionError, or a crash, unless the library decodes a crop as simplejpeg does."""
    native.library = lambda: native.load(path)
    picture = simplejpeg.encode_jpeg(np.random.default_rng(0).integers(0, 255, (40, 56, 3), np.uint8), 90)
    out = np.empty((1, 3, 16, 16), np.uint8)
    views = Views(np.array([[20, 12, 16, 16]]), np.array([False]))
    sources = native.Sources.in_memory([picture])
    assert sources.measure(np.empty(1, np.float32)).tolist() == [[40, 56]]
    assert sources.render(views, Target.of((3, 16, 16), (0,) * 3, (1,) * 3, "uint8"), out).all()
    expected = simplejpeg.decode_jpeg(picture)[12:28, 20:36]
    assert np.abs(out[0].transpose(1, 2, 0).astype(int) - expected).max() <= 1, "error: wrong pixels"


if __name__ == "__main__":
    prove(Path(sys.argv[1]))
