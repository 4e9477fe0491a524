"""Series of numbers made fit to draw. None is a gap: what was not finite, or not known."""

from collections.abc import Sequence
from itertools import accumulate

from trainer.observe.history import is_number

Series = list[float | None]

POINTS = 2000


def numbers(events: Sequence[dict], *path: str) -> Series:
    """The number at a path of keys in each event; None where there is none."""
    return [_number(event, path) for event in events]


def scaled(values: Series, factor: float) -> Series:
    """The values in another unit."""
    return [None if value is None else value * factor for value in values]


def keep(columns: Sequence[Series], points: int = POINTS) -> list[int]:
    """Rows to draw, at most `points`, rising: first and last, and each stretch's extremes and ends of gaps, by column.

    So a spike or a gap of one row survives, and curves that are drawn on top of each other share their x.
    """
    rows = len(columns[0])
    if rows <= points:
        return list(range(rows))
    stretches = max((points - 2) // (4 * len(columns)), 1)
    kept = {0, rows - 1}
    for number in range(stretches):
        stretch = range(rows * number // stretches, rows * (number + 1) // stretches)
        for column in columns:
            kept.update(_extremes(column, stretch))
    return sorted(kept)


def smooth(values: Series, windows: int) -> Series:
    """The mean of the 1/`windows` of the series around each value, so that it does not lag. Gaps stay gaps."""
    reach = len(values) // (2 * windows)
    sums = list(accumulate((value or 0.0 for value in values), initial=0.0))
    counts = list(accumulate((value is not None for value in values), initial=0))
    result: Series = []
    for row, value in enumerate(values):
        begin, end = max(row - reach, 0), min(row + reach + 1, len(values))
        result.append(None if value is None else (sums[end] - sums[begin]) / (counts[end] - counts[begin]))
    return result


def _number(event: dict, path: Sequence[str]) -> float | None:
    value = event
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if is_number(value) else None


def _extremes(column: Series, stretch: range) -> list[int]:
    known = [row for row in stretch if column[row] is not None]
    gap = [row for row in stretch if column[row] is None]
    return (
        gap[:1] + gap[-1:] + ([min(known, key=column.__getitem__), max(known, key=column.__getitem__)] if known else [])
    )
