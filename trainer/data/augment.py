"""Random crops, flips and colours. What happens to a picture depends on (seed, epoch, position in the epoch) only.

So it does not change with the threads, the batch size or a resume. An augmentation says what happens to pictures of
given sizes (`Views`), all at once; doing it is `show` here, or the crop decoder without decoding the rest.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

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
_ORDERS = np.array([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])

Numbers = np.ndarray


@dataclass(frozen=True)
class Views:
    """What is shown of n pictures.

    boxes: int32 [n, 4], the crop's left, top, width and height in pixels, which is then scaled to the target.
    flips: bool [n], mirrored. changes: float32 [n, 15], or None: the colours' 3 x 3 matrix, the 3 offsets, and 3 more
    for each level of the crop's mean grey. moves: int [n, 2], or None: right and down, in pixels of the target.
    """

    boxes: np.ndarray
    flips: np.ndarray
    changes: np.ndarray | None = None
    moves: np.ndarray | None = None


# Of sizes [n, 2] (height, width), the target's height and width, numbers [n, NUMBERS].
Augmentation = Callable[[np.ndarray, int, int, Numbers], Views]


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


def random_resized_crop(sizes: np.ndarray, _height: int, _width: int, numbers: Numbers) -> Views:
    """A part of random area, shape and place, flipped half of the time."""
    return Views(_crop_boxes(sizes, numbers), numbers[:, _FLIP] < 0.5)


def _crop_boxes(sizes: np.ndarray, numbers: Numbers) -> np.ndarray:
    """The largest centred box of an allowed shape when no try fits into the picture."""
    areas = (_SMALLEST_AREA + (1 - _SMALLEST_AREA) * numbers[:, _AREAS]) * sizes.prod(1, keepdims=True)
    ratios = np.exp((2 * numbers[:, _RATIOS] - 1) * _LOG_RATIO)
    tries = np.rint(np.sqrt([areas / ratios, areas * ratios]))  # [height or width, n, try]
    fits = ((tries >= 1) & (tries <= sizes.T[..., None])).all(0)
    shape = np.take_along_axis(tries, fits.argmax(1)[None, :, None], 2)[..., 0].T
    places = numbers[:, [_TOP, _LEFT]]
    none = ~fits.any(1)
    if none.any():
        shape[none] = np.minimum(sizes, np.rint(sizes[:, ::-1] * (4 / 3)))[none]
        places[none] = 0.5
    return _boxes((places * (sizes - shape + 1)).astype(np.int32), shape)


def _boxes(corners: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """From [n, 2] in the order of arrays (y, x) to boxes in the order of pictures (x, y)."""
    return np.concatenate([corners[:, ::-1], shapes[:, ::-1]], 1).astype(np.int32)


def random_colours(sizes: np.ndarray, height: int, width: int, numbers: Numbers) -> Views:
    """A random resized crop with brightness, contrast and saturation (each up to 40 %) and lighting changed."""
    crop = random_resized_crop(sizes, height, width, numbers)
    return Views(crop.boxes, crop.flips, _colour_changes(numbers))


def _colour_changes(numbers: Numbers) -> np.ndarray:
    """All changes are linear in (red, green, blue, mean grey, 1), so they are multiplied first and applied once."""
    change = _lighting(numbers[:, _LIGHTING])
    jitters = _jitters(1 + _JITTER_STRENGTH * (2 * numbers[:, _JITTER] - 1))
    orders = _ORDERS[(numbers[:, _ORDER] * len(_ORDERS)).astype(int)]
    for turn in range(3):
        change = change @ jitters[np.arange(len(numbers)), orders[:, turn]]
    parts = [change[:, :3, :3].reshape(-1, 9), change[:, :3, 4], change[:, :3, 3]]
    return np.concatenate(parts, 1).astype(np.float32)


def _jitters(factors: np.ndarray) -> np.ndarray:
    """[n, 3, 5, 5]: brightness, contrast (away from the mean grey), saturation (away from each pixel's grey)."""
    changes = np.tile(np.eye(5), (*factors.shape, 1, 1))
    changes[..., :3, :3] *= factors[..., None, None]
    changes[:, 1, :3, 3] = 1 - factors[:, 1, None]
    changes[:, 2, :3, :3] += (1 - factors[:, 2, None, None]) * _GREY
    return changes


def _lighting(numbers: Numbers) -> np.ndarray:
    """[n, 5, 5]: three normal deviates (Box-Muller) along the colour axes, the same for all pixels."""
    deviates = np.sqrt(-2 * np.log1p(-numbers[:, :3])) * np.cos(2 * math.pi * numbers[:, 3:])
    changes = np.tile(np.eye(5), (len(numbers), 1, 1))
    changes[:, :3, 4] = deviates @ _LIGHTING_AXES.T * _LIGHTING_STRENGTH
    return changes


def shift(sizes: np.ndarray, height: int, width: int, numbers: Numbers) -> Views:
    """The picture at the size, moved by up to 1/8 of it into a black border, flipped half of the time."""
    pads = np.array([round(width / 8), round(height / 8)])
    moves = pads - (numbers[:, [_LEFT, _TOP]] * (2 * pads + 1)).astype(int)
    return Views(centre_boxes(sizes, height, width, enlarge=1.0), numbers[:, _FLIP] < 0.5, moves=moves)


def validation_view(sizes: np.ndarray, height: int, width: int, _numbers: Numbers | None = None) -> Views:
    """What validation and prediction see: the middle of the picture, its border of 1/8 left out above 32 px."""
    boxes = centre_boxes(sizes, height, width, enlarge=validation_enlargement(height))
    return Views(boxes, np.zeros(len(sizes), bool))


def validation_enlargement(height: int) -> float:
    """By how much the picture exceeds the crop: 256 to 224 as usual for ImageNet, nothing for small pictures."""
    return 1.0 if height <= 32 else 256 / 224


def centre_boxes(sizes: np.ndarray, height: int, width: int, *, enlarge: float) -> np.ndarray:
    """The middle of each picture, as if it was first scaled to just cover `enlarge` times the size."""
    target = np.array([height, width])
    factors = enlarge * (target / sizes).max(1, keepdims=True)
    shapes = np.maximum(1, np.rint(target / factors)).astype(int)
    return _boxes((sizes - shapes) // 2, shapes)


def show(image: np.ndarray, views: Views, k: int, height: int, width: int) -> np.ndarray:
    """View k of a decoded picture: uint8 [height, width, 3]."""
    left, top, part_width, part_height = views.boxes[k]
    shown = scale(image[top : top + part_height, left : left + part_width], height, width)
    if views.changes is not None:
        shown = cv2.transform(shown, _transform(shown, views.changes[k]))
    if views.moves is not None:
        shown = _moved(shown, *views.moves[k])
    return cv2.flip(shown, 1) if views.flips[k] else shown


def _transform(image: np.ndarray, change: np.ndarray) -> np.ndarray:
    grey = _GREY @ cv2.mean(image)[:3]
    return np.column_stack([change[:9].reshape(3, 3), change[9:12] + grey * change[12:]])


def _moved(image: np.ndarray, right: int, down: int) -> np.ndarray:
    height, width = image.shape[:2]
    out = np.zeros_like(image)
    out[max(down, 0) : height + down, max(right, 0) : width + right] = image[
        max(-down, 0) : height - down, max(-right, 0) : width - right
    ]
    return out


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
    "none": validation_view,
}
