"""Rows of numbers over time (or epochs) in a bounded number of buckets, which keep mean and extremes."""

from collections.abc import Sequence

from trainer.observe.history import is_number

Row = Sequence[float | None]


class _Bucket:
    """Of each column: how many numbers, their sum, the lowest and the highest."""

    __slots__ = ("counts", "highs", "lows", "sums")

    def __init__(self):
        self.counts: list[int] = []
        self.sums: list[float] = []
        self.lows: list[float] = []
        self.highs: list[float] = []

    def add(self, row: Row) -> None:
        self._widen(len(row))
        for column, value in enumerate(row):
            if value is not None:
                self._put(column, 1, value, value, value)

    def absorb(self, other: "_Bucket") -> None:
        self._widen(len(other.counts))
        for column, count in enumerate(other.counts):
            if count:
                self._put(column, count, other.sums[column], other.lows[column], other.highs[column])

    def mean(self, column: int) -> float | None:
        known = column < len(self.counts) and self.counts[column]
        return self.sums[column] / self.counts[column] if known else None

    def low(self, column: int) -> float | None:
        return self.lows[column] if column < len(self.counts) and self.counts[column] else None

    def high(self, column: int) -> float | None:
        return self.highs[column] if column < len(self.counts) and self.counts[column] else None

    def _put(self, column: int, count: int, total: float, low: float, high: float) -> None:
        if self.counts[column]:
            low, high = min(low, self.lows[column]), max(high, self.highs[column])
        self.counts[column] += count
        self.sums[column] += total
        self.lows[column], self.highs[column] = low, high

    def _widen(self, columns: int) -> None:
        """A device may appear while the run goes on."""
        more = columns - len(self.counts)
        if more > 0:
            for values in (self.counts, self.sums, self.lows, self.highs):
                values.extend([0] * more)


class Rollup:
    """At most `most` buckets, each `width` wide.

    One that `grows` doubles its width when it is full, so it always reaches back to the beginning; another one forgets
    its oldest bucket. Stretches without rows cost nothing.
    """

    def __init__(self, width: float, most: int, grows: bool):
        self.width, self._most, self._grows = width, most, grows
        self._buckets: dict[int, _Bucket] = {}

    def add(self, x: float, row: Row) -> None:
        key = int(x / self.width + 1e-6)  # 0.3 / 0.1 is a little less than 3
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
        bucket.add(row)
        if len(self._buckets) > self._most:
            self._make_room()

    def cut(self, x: float) -> None:
        """Forgets what lies beyond x: it is done again. The bucket that x lies in stays as it is."""
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if key * self.width <= x}

    def places(self, newest: int | None = None) -> list[int]:
        """Numbers of the buckets, rising (of the last `newest` ones); a bucket begins at its number times the width."""
        keys = sorted(self._buckets)
        return keys if newest is None else keys[-newest:]

    def column(self, what: str, column: int, keys: Sequence[int], digits: int = 0) -> list[float | None]:
        """`what` is "mean", "low" or "high"; None where a bucket knows nothing."""
        return [_rounded(getattr(self._buckets[key], what)(column), digits) for key in keys]

    def _make_room(self) -> None:
        if not self._grows:
            while len(self._buckets) > self._most:
                del self._buckets[min(self._buckets)]
            return
        before, self._buckets = self._buckets, {}
        self.width *= 2
        for key in sorted(before):
            bucket = self._buckets.get(key // 2)
            if bucket is None:
                self._buckets[key // 2] = before[key]
            else:
                bucket.absorb(before[key])


def known(value) -> float | None:
    return value if is_number(value) else None


def _rounded(value: float | None, digits: int) -> float | None:
    if value is None:
        return None
    return round(value, digits) if digits else round(value)
