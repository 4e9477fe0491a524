"""Images/s of the network by batch: where it is best, and the smallest batch that is as good.

The curve rises, stays flat and may fall again (AlexNet on a K80 is 15 % slower with a batch of 512 than of 256): what
was measured is never taken to go on beyond its neighbours.
"""

import math

from trainer.tune.figures import Figure

Curve = dict[int, Figure]

# A smallest batch is found when the next smaller one measured is not smaller than this share of it.
_NEAR_SHARE = 0.8
# ... or when the line between the two says that less than this can be saved.
_WORTH_SHARE = 0.9

# No batch is looked at that is smaller than one with this share of the rate wanted.
_HOPELESS_SHARE = 0.75


def rate_at(curve: Curve, batch: int) -> float:
    """Images/s with this batch: on the line between its neighbours, through the origin, flat above the largest."""
    below = max((known for known in curve if known <= batch), default=0)
    above = min((known for known in curve if known >= batch), default=below)
    low = curve[below].rate if below else 0.0
    if above == below:
        return low
    return low + (curve[above].rate - low) * (batch - below) / (above - below)


def best_batch(curve: Curve, most: float) -> int:
    """The batch with the highest rate below `most` (what feeds the network); of equals the largest."""
    return max(curve, key=lambda batch: (min(curve[batch].rate, most), batch))


def largest_good(curve: Curve, wanted: float) -> int:
    """The largest batch measured whose rate is the one wanted, or more."""
    return max(batch for batch, figure in curve.items() if figure.rate >= wanted)


def smallest_good(curve: Curve, wanted: float) -> int:
    return min(batch for batch, figure in curve.items() if figure.rate >= wanted)


def next_smaller(curve: Curve, wanted: float, step: int) -> int | None:
    """The batch (a multiple of `step`) to measure next on the way to the smallest with the rate wanted; None: found."""
    good, bad = smallest_good(curve, wanted) // step, _largest_slow(curve, wanted) // step
    if good - bad <= 1 or bad >= _NEAR_SHARE * good:
        return None
    if good > 2 * max(bad, 1):
        return step * _power_between(bad, good)
    low = curve[bad * step].rate if bad else 0.0
    share = (wanted - low) / (curve[good * step].rate - low)
    between = max(bad + 1, bad + math.ceil(share * (good - bad)))
    return step * between if between <= _WORTH_SHARE * good else None


def next_beside_peak(curve: Curve, best: int, step: int, largest: int) -> int | None:
    """A neighbour of the best batch, twice or half of it, that has not been measured; None: both were."""
    images = best // step
    for neighbour in (_power(images) * 2, _power(images - 1)):
        if 1 <= neighbour < largest // step and neighbour * step not in curve and neighbour != images:
            return neighbour * step
    return None


def next_in_gap(curve: Curve, wanted: float, step: int) -> int | None:
    """A power of two, not measured yet, in the widest stretch between the slow small batches and the largest.

    Rates need not rise all the way: the stretch begins where they are so low that nothing below can be near the best.
    """
    slow = _largest_slow(curve, _HOPELESS_SHARE * wanted)
    known = sorted({slow // step, *(batch // step for batch in curve if batch >= slow)})
    gaps = [(high / max(low, 0.5), low, high) for low, high in zip(known, known[1:], strict=False)]
    for _, low, high in sorted(gaps, reverse=True):
        power = _power_between(low, high)
        if low < power < high:
            return power * step
    return None


def _largest_slow(curve: Curve, wanted: float) -> int:
    """Of the batches below the smallest good one the largest that is slower for sure; 0 when none is."""
    good = smallest_good(curve, wanted)
    sure = [batch for batch, figure in curve.items() if figure.rate * (1 + 2 * figure.error) < wanted]
    return max((batch for batch in sure if batch < good), default=0)


def _power(images: int) -> int:
    """The largest power of two that is not above."""
    return 1 << (max(images, 1).bit_length() - 1)


def _power_between(low: int, high: int) -> int:
    """The power of two nearest to the middle of a stretch, on a scale of doublings."""
    return 1 << round((math.log2(max(low, 0.5)) + math.log2(high)) / 2)

