"""Series of numbers made fit to draw. None is a gap: what was not finite, or not known."""

from collections.abc import Sequence

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
    """Rows to draw, at most `points`, rising: the first and last, and of each stretch every column's extremes and gap's ends.

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
    """The exponential moving average over 1/`windows` of the series, without the pull to 0 at its start.

    (The correction is Adam's: Kingma and Ba 2014, section 3.) Gaps stay gaps and leave the average as it was.
    """
    decay = 1 - 1 / max(len(values) / windows, 1)
    average, weight, result = 0.0, 0.0, []
    for value in values:
        if value is not None:
            average = decay * average + (1 - decay) * value
            weight = decay * weight + (1 - decay)
        result.append(None if value is None else average / weight)
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
