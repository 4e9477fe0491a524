"""What a network is fed: pictures of one size, normalised, colours apart."""

from dataclasses import dataclass

import cv2
import numpy as np

Channels = tuple[float, float, float]


@dataclass(frozen=True)
class Target:
    """Size in pixels, and float32 [3, 256]: what each level of red, green and blue becomes."""

    height: int
    width: int
    levels: np.ndarray

    @classmethod
    def of(cls, image_shape: tuple[int, int, int], mean: Channels, std: Channels) -> "Target":
        """(level - mean) / std for each channel; image_shape is [3, height, width]."""
        levels = (np.arange(256) - np.reshape(mean, (3, 1))) / np.reshape(std, (3, 1))
        return cls(image_shape[1], image_shape[2], levels.astype(np.float32))

    def write(self, image: np.ndarray, out: np.ndarray) -> None:
        """Normalises uint8 [height, width, 3] into float32 [3, height, width], which must be contiguous.

        A look-up for each channel: half the time of arithmetic on floats.
        """
        for channel, levels, plane in zip(cv2.split(image), self.levels, out, strict=True):
            cv2.LUT(channel, levels, dst=plane)
