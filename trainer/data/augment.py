"""Random crops, flips and colours. What happens to a picture depends on (seed, epoch, position in the epoch) only.

So it does not change with the threads, the batch size or a resume.
"""

import functools
import math
from collections.abc import Callable

import cv2
import numpy as np

# Random numbers that each picture gets; the ranges below say which of them mean what.
_CROP_TRIES = 10
_AREAS = slice(0, _CROP_TRIES)
_RATIOS = slice(_CROP_TRIES, 2 * _CROP_TRIES)
_LEFT, _TOP, _FLIP, _ORDER = range(20, 24)
_JITTER = slice(24, 27)
_LIGHTING = slice(27, 33)
NUMBERS = 33

# Szegedy et al. 2014 (section 6): 8 to 100 % of the area, aspect ratios 3/4 to 4/3, the latter even on a log scale.
_SMALLEST_AREA = 0.08
_LOG_RATIO = math.log(4 / 3)
_JITTER_STRENGTH = 0.4
# Krizhevsky et al. 2012 (section 4.1), with MXNet's strength: ImageNet's colour axes, scaled by their deviations.
_LIGHTING_STRENGTH = 0.1
_LIGHTING_AXES = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * np.array([55.46, 4.794, 1.148])
_GREY = np.array([0.299, 0.587, 0.114])
_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))

Numbers = np.ndarray
Augmentation = Callable[[np.ndarray, int, int, Numbers], np.ndarray]


def hashed(*keys: np.ndarray | int) -> np.ndarray:
    """uint64 that look random, one for each combination of the (broadcast) keys: SplitMix64 (Steele et al. 2014)."""
    state = np.zeros((), np.uint64)
    with np.errstate(over="ignore"):
        for key in keys:
            state = _mix(state + np.asarray(key, np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return state


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_numbers(seed: int, epoch: int, positions: np.ndarray) -> np.ndarray:
    """float64 [positions, NUMBERS], each in [0, 1): what happens to the pictures at these places of an epoch."""
    bits = hashed(seed, epoch, positions[:, None], np.arange(NUMBERS))
    return (bits >> np.uint64(11)) * 2.0**-53


@functools.lru_cache(maxsize=4)
def epoch_order(count: int, seed: int, epoch: int) -> np.ndarray:
    """The numbers below `count` in the order of this epoch."""
    return np.argsort(hashed(seed, epoch, np.arange(count), NUMBERS), kind="stable")


def random_resized_crop(image: np.ndarray, height: int, width: int, numbers: Numbers) -> np.ndarray:
    """A part of random area, shape and place, scaled to the size and flipped half of the time."""
    left, top, part_width, part_height = _crop_box(image.shape[0], image.shape[1], numbers)
    part = image[top : top + part_height, left : left + part_width]
    return _flip(scale(part, height, width), numbers)


def _crop_box(height: int, width: int, numbers: Numbers) -> tuple[int, int, int, int]:
    """left, top, width, height; the largest centred box of an allowed shape when no try fits into the picture."""
    areas = (_SMALLEST_AREA + (1 - _SMALLEST_AREA) * numbers[_AREAS]) * (height * width)
    ratios = np.exp((2 * numbers[_RATIOS] - 1) * _LOG_RATIO)
    widths, heights = np.rint(np.sqrt(areas * ratios)), np.rint(np.sqrt(areas / ratios))
    fits = (widths <= width) & (heights <= height) & (widths >= 1) & (heights >= 1)
    if fits.any():
        first = fits.argmax()
        box_width, box_height = int(widths[first]), int(heights[first])
        left, top = numbers[_LEFT] * (width - box_width + 1), numbers[_TOP] * (height - box_height + 1)
        return int(left), int(top), box_width, box_height
    box_width, box_height = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - box_width) // 2, (height - box_height) // 2, box_width, box_height


def random_colours(image: np.ndarray, height: int, width: int, numbers: Numbers) -> np.ndarray:
    """A random resized crop with brightness, contrast and saturation (each up to 40 %) and lighting changed.

    All of them are linear in (red, green, blue, 1), so they are multiplied first and applied once.
    """
    crop = random_resized_crop(image, height, width, numbers)
    grey = float(_GREY @ cv2.mean(crop)[:3])
    change = _lighting(numbers[_LIGHTING])
    factors = 1 + _JITTER_STRENGTH * (2 * numbers[_JITTER] - 1)
    for kind in _ORDERS[int(numbers[_ORDER] * len(_ORDERS))]:
        change = change @ _jitter(kind, factors[kind], grey)
    return cv2.transform(crop, change[:3])


def _jitter(kind: int, factor: float, grey: float) -> np.ndarray:
    change = np.eye(4)
    change[:3, :3] *= factor
    if kind == 1:  # contrast: away from the picture's mean grey
        change[:3, 3] = (1 - factor) * grey
    elif kind == 2:  # saturation: away from each pixel's grey
        change[:3, :3] += (1 - factor) * _GREY
    return change


def _lighting(numbers: Numbers) -> np.ndarray:
    """Three normal deviates (Box-Muller) along the colour axes, the same for all pixels."""
    deviates = np.sqrt(-2 * np.log1p(-numbers[:3])) * np.cos(2 * math.pi * numbers[3:])
    change = np.eye(4)
    change[:3, 3] = _LIGHTING_AXES @ deviates * _LIGHTING_STRENGTH
    return change


def shift(image: np.ndarray, height: int, width: int, numbers: Numbers) -> np.ndarray:
    """The picture at the size, moved by up to 1/8 of it into a black border, flipped half of the time."""
    pad_y, pad_x = round(height / 8), round(width / 8)
    whole = centre_crop(image, height, width, enlarge=1.0)
    padded = np.zeros((height + 2 * pad_y, width + 2 * pad_x, 3), np.uint8)
    padded[pad_y : pad_y + height, pad_x : pad_x + width] = whole
    top, left = int(numbers[_TOP] * (2 * pad_y + 1)), int(numbers[_LEFT] * (2 * pad_x + 1))
    return _flip(padded[top : top + height, left : left + width], numbers)


def _flip(image: np.ndarray, numbers: Numbers) -> np.ndarray:
    return cv2.flip(image, 1) if numbers[_FLIP] < 0.5 else image


def validation_crop(image: np.ndarray, height: int, width: int, _numbers: Numbers | None = None) -> np.ndarray:
    """What validation and prediction see: the middle of the picture, its border of 1/8 left out above 32 px."""
    return centre_crop(image, height, width, enlarge=validation_enlargement(height))


def validation_enlargement(height: int) -> float:
    """By how much the picture exceeds the crop: 256 to 224 as usual for ImageNet, nothing for small pictures."""
    return 1.0 if height <= 32 else 256 / 224


def centre_crop(image: np.ndarray, height: int, width: int, *, enlarge: float) -> np.ndarray:
    """The middle of the picture, as if it was first scaled to just cover `enlarge` times the size."""
    factor = enlarge * max(height / image.shape[0], width / image.shape[1])
    part_height, part_width = max(1, round(height / factor)), max(1, round(width / factor))
    top, left = (image.shape[0] - part_height) // 2, (image.shape[1] - part_width) // 2
    return scale(image[top : top + part_height, left : left + part_width], height, width)


def scale(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The picture at exactly this size: linear, but averaging where each pixel comes from more than 2 x 2."""
    if image.shape[:2] == (height, width):
        return image
    shrinks = image.shape[0] > 2 * height and image.shape[1] > 2 * width
    return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)


AUGMENTATIONS: dict[str, Augmentation] = {
    "imagenet": random_colours,
    "crop": random_resized_crop,
    "pad": shift,
    "none": validation_crop,
}
