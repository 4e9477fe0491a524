"""Decode speed by threads, and the fewest threads that reach a speed. Amdahl's law between what was measured:

1 / rate = serial + parallel / threads (seconds an image), a straight line over 1 / threads.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from trainer.tune.figures import Figure

# A figure this near the disk's limit says what the disk can do, not what the threads can.
_NEAR_SHARE = 0.03
# What the law may be wrong by before only the nearest points are believed: hyper-threads bend the line.
_BEND_SHARE = 0.03


@dataclass(frozen=True)
class DecodeCurve:
    """points: the input alone, by threads. disk_rate: what the disk gives at most.

    at_least: training by threads, which the input has fed. sure_errors: by so many standard errors a point must be
    lower than a rate to be lower for sure.
    """

    points: dict[int, Figure]
    disk_rate: float
    at_least: dict[int, Figure] = field(default_factory=dict)
    sure_errors: float = 1.0

    def likely_threads(self, rate: float) -> float:
        """The fewest threads for a rate, as far as is known; infinite when no number is enough."""
        return self._threads(rate, lambda fewest, most: math.sqrt(fewest * most))

    def sure_threads(self, rate: float) -> float:
        """The same where the disk hides what more threads would do: a number that was seen to be enough."""
        return self._threads(rate, max)

    def _threads(self, rate: float, between: Callable[[float, float], float]) -> float:
        below = self.not_limited_by_disk()
        if not below:
            by_the_law = float(min(self.points))
        elif len(below) == 1:
            by_the_law = between(*self._bounds(rate, *below.items()))
        else:
            by_the_law = _threads(_line(self._trusted(below, rate)), rate)
        slower = [t for t, figure in self.points.items() if figure.rate * (1 + self.sure_errors * figure.error) < rate]
        faster = [t for t, figure in [*self.points.items(), *self.at_least.items()] if figure.rate >= rate]
        return max([min([by_the_law, *faster]), *(t + 0.5 for t in slower)])

    def rate_of(self, threads: int) -> float:
        """Images/s with so many threads: measured, or by the law."""
        if threads in self.points:
            return self.points[threads].rate
        below = self.not_limited_by_disk()
        if not below:
            return self.disk_rate
        if len(below) == 1:
            ((known, figure),) = below.items()
            return min(figure.rate * threads / known, self.disk_rate)
        serial, parallel = _line(below)
        return min(1 / (serial + parallel / threads), self.disk_rate)

    def tells(self, threads: int) -> bool:
        """Whether it is known what so many give, or the disk hides it."""
        return threads in self.points or len(self.not_limited_by_disk()) > 1

    def not_limited_by_disk(self) -> dict[int, Figure]:
        limit = {t: self.disk_rate * (1 - _NEAR_SHARE - 2 * figure.error) for t, figure in self.points.items()}
        return {t: figure for t, figure in self.points.items() if figure.rate < limit[t]}

    def _bounds(self, rate: float, one: tuple[int, Figure]) -> tuple[float, float]:
        """Perfect scaling, and the slowest scaling that meets the disk's limit where it was first seen."""
        threads, figure = one
        fewest = threads * max(1.0, rate / figure.rate)
        capped = min((t for t in self.points if t > threads), default=math.inf)
        if fewest >= capped or capped == math.inf:
            return fewest, fewest
        most = _threads(_line({threads: figure, capped: self.points[capped]}), rate)
        return fewest, min(max(fewest, most), capped)

    def _trusted(self, below: dict[int, Figure], rate: float) -> dict[int, Figure]:
        """All points when one line holds for them, else the two next to the rate."""
        serial, parallel = _line(below)
        off = [abs((serial + parallel / t) * figure.rate - 1) - 3 * figure.error for t, figure in below.items()]
        if len(below) < 3 or max(off) <= _BEND_SHARE:
            return below
        slower = [t for t in sorted(below) if below[t].rate < rate] or [min(below)]
        faster = [t for t in sorted(below) if t > slower[-1]]
        pair = (slower[-1], faster[0]) if faster else tuple(sorted(below)[-2:])
        return {t: below[t] for t in pair}


def _line(points: dict[int, Figure]) -> tuple[float, float]:
    """(serial, parallel) by least squares of relative errors; a serial part below 0 is noise, and 0."""
    weights = {t: figure.rate**2 for t, figure in points.items()}
    total = math.fsum(weights.values())
    x = math.fsum(w / t for t, w in weights.items()) / total
    y = math.fsum(w / points[t].rate for t, w in weights.items()) / total
    spread = math.fsum(w * (1 / t - x) ** 2 for t, w in weights.items())
    slope = math.fsum(w * (1 / t - x) * (1 / points[t].rate - y) for t, w in weights.items()) / spread
    if y - slope * x < 0:
        return 0.0, y / x
    return (y - slope * x, slope) if slope > 0 else (y, 0.0)


def _threads(line: tuple[float, float], rate: float) -> float:
    serial, parallel = line
    if 1 / rate <= serial:
        return math.inf
    return max(1.0, parallel / (1 / rate - serial))
