"""The largest batch that fits: two memory readings predict where the limit lies, and a probe there proves it."""

from collections.abc import Callable

# Where memory does not grow in a straight line, the search ends this near the limit.
_NEAR_SHARE = 0.01
_MOST_TRIES = 16


def largest_that_fits(
    fits: Callable[[int], bool], readings: dict[int, float], limit_mb: float, first: int, most: int | None
) -> int:
    """Images on one device; 0 when not even one fits.

    fits(images) tries it, and adds to `readings` (images -> MB) where it fits. most: larger ones are not tried.
    """
    good, bad = 0, None if most is None else most + 1
    guess = first if most is None else min(first, most)
    for _ in range(_MOST_TRIES):
        if fits(guess):
            good = max(good, guess)
        else:
            bad = guess if bad is None else min(bad, guess)
        guess = _next(_predicted(readings, limit_mb, good, most), good, bad, len(readings))
        if guess is None:
            return good
    return good


def _next(predicted: int | None, good: int, bad: int | None, readings: int) -> int | None:
    """What to try next; None when the largest is found."""
    if not good:
        return 1 if bad > 1 else None
    if (bad is not None and bad - good <= 1) or (predicted is not None and predicted <= good):
        return None
    if predicted is not None and (bad is None or predicted < bad):
        return predicted
    if bad is None:
        return 2 * good
    if predicted == bad:  # met so nearly that the last digit decides
        return bad - 1
    if readings > 1 and bad - good <= _NEAR_SHARE * good:
        return None
    # A line that promises too much is not far wrong; without one, the middle is as good as any.
    return min(2 * good, (good + bad) // 2) if predicted is None else (good + 7 * bad) // 8


def _predicted(readings: dict[int, float], limit_mb: float, good: int, most: int | None) -> int | None:
    """By the line through the two largest readings; from a single one, what fits even if all of it was images."""
    known = sorted((images, mb) for images, mb in readings.items() if images <= good)
    if not known:
        return None
    if len(known) == 1:
        images, mb = known[0]
        predicted = max(int(images * limit_mb / mb), images + 1)
    else:
        (few, few_mb), (many, many_mb) = known[-2:]
        if many_mb <= few_mb:
            return None
        # The tiny share keeps a limit that is met exactly from being lost in the last digit.
        predicted = int(many + (limit_mb - many_mb) * (many - few) / (many_mb - few_mb) + 1e-6)
    return predicted if most is None else min(predicted, most)
