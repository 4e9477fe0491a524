"""What the trainer gets at a time."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Batch:
    """images: [n, 3, height, width], float32 normalised or uint8. labels: float32 [n], or [n, label_width] above 1.

    position: where its first record stands in the order of the epoch.
    """

    images: np.ndarray
    labels: np.ndarray
    epoch: int
    position: int
