"""What a search knows at a moment: the host, the figures so far, and what follows from them."""

import math
from dataclasses import dataclass

from trainer.tune.batch_curve import Curve, rate_at
from trainer.tune.decode_curve import DecodeCurve
from trainer.tune.figures import Book, Figure

# Loss of speed for which fewer threads or a smaller batch are taken ...
TOLERANCE = 0.02
# ... and what the result may be wrong by where measurements differ by more than this share.
NOISY = 0.008
NOISY_TOLERANCE = 0.05
# A figure is wrong by more than this many standard errors once in a thousand times.
_SURE_ERRORS = 3.3
# In noise a rate is lower than another for sure by two standard errors of their difference.
_NOISY_ERRORS = 2.8
_GRID_PROBE_SECONDS = 50.0


@dataclass(frozen=True)
class Host:
    """Of what is tuned: the devices, the most decode threads, and where the search begins.

    memory_mb: what a batch may take on one device. most_batch: larger ones are not tried. precision: the
    configuration's.
    """

    devices: int
    vcpus: int
    memory_mb: float
    batch: int = 128
    threads: int = 4
    most_batch: int | None = None
    precision: str = "float32"


@dataclass
class Known:
    """start_batch, start_threads: what is compared with. largest: the largest batch that fits. threads: the choice."""

    host: Host
    book: Book
    start_batch: int
    start_threads: int
    largest: int = 0
    threads: int = 0

    def __post_init__(self):
        self._seconds_at_begin = self.book.prober.seconds_left()

    @property
    def spent_seconds(self) -> float:
        return self._seconds_at_begin - self.book.prober.seconds_left()

    @property
    def is_complete(self) -> bool:
        """Whether all three roofs were measured."""
        return len(self.roofs()) == 3

    @property
    def disk_rate(self) -> float:
        return self.book.known("disk", 0, 0).rate

    @property
    def feed(self) -> float:
        """images/s that the input gives with all threads."""
        return min(self.disk_rate, self.book.known("input", 0, self.host.vcpus).rate)

    @property
    def goal(self) -> float:
        """images/s of the lowest roof."""
        return min(self.feed, max(figure.rate for figure in self.curve.values()))

    @property
    def networks(self) -> Curve:
        """The network alone by batch, as far as it fits."""
        return {batch: figure for batch, figure in self.book.of("network").items() if batch <= self.largest}

    @property
    def curve(self) -> Curve:
        """The same with the first batch, where training says what its network can do."""
        threads, start = max(self._trainings().items(), key=lambda item: item[1].rate, default=(0, None))
        if start is None or self.start_batch in self.networks or not self.book.known("disk", 0, 0):
            return self.networks
        fed = max(figure.rate for figure in self.networks.values()) >= self.feed
        if fed or start.rate < 0.95 * self.decode.rate_of(threads):
            return {self.start_batch: start} | self.networks
        return self.networks

    def _trainings(self) -> dict[int, Figure]:
        """Of the first batch, by threads."""
        places = [place for place in self.book.rates if place[:2] == ("training", self.start_batch)]
        return {place[2]: self.book.known(*place) for place in places}

    @property
    def decode(self) -> DecodeCurve:
        sure_errors = _NOISY_ERRORS if self.is_noisy else 1.0
        return DecodeCurve(self.book.of("input"), self.disk_rate, self._trainings(), sure_errors)

    @property
    def is_noisy(self) -> bool:
        return self.book.noise() > NOISY

    @property
    def error(self) -> float:
        """The usual standard error of a quotient of two figures, as a share."""
        measurements = 3 if self.book.noise() < 1.5 * NOISY else 5
        return math.sqrt(2 / measurements) * self.book.noise()

    @property
    def sure_loss(self) -> float:
        """What the figures may show as lost, so that in truth it is the tolerance at most; below 0 in much noise."""
        allowed = NOISY_TOLERANCE if self.is_noisy else TOLERANCE
        # The last place keeps a limit that is met exactly from being lost to rounding.
        return min(TOLERANCE, allowed - _SURE_ERRORS * self.error) - 1e-4

    @property
    def loss(self) -> float:
        """The same, with something left to choose from in much noise."""
        return max(0.01 if self.is_noisy else 0.003, self.sure_loss)

    def rate(self, batch: int, threads: int) -> float:
        """images/s of training: measured, or what its parts alone promise."""
        figure = self.book.known("training", batch, threads)
        return figure.rate if figure else self.expected(batch, threads)

    def expected(self, batch: int, threads: int) -> float:
        """The lowest of what the network does with this batch and the input with these threads, as far as known."""
        rates = list(self.roofs().values())
        if self.book.of("input") and "disk" in self.roofs():
            rates.append(self.decode.rate_of(threads))
        if self.networks:
            rates.append(rate_at(self.networks, batch))
        return min(rates)

    def roofs(self) -> dict[str, float]:
        """images/s of the network alone, the input alone and the disk alone, as far as they were measured."""
        all_threads = self.book.known("input", 0, self.host.vcpus)
        disk = self.book.known("disk", 0, 0)
        roofs = {"input": all_threads and all_threads.rate, "disk": disk and disk.rate}
        curve = self.curve if all_threads and disk else self.networks
        roofs |= {"network": max((figure.rate for figure in curve.values()), default=None)}
        return {name: rate for name, rate in roofs.items() if rate}

    def grid_seconds(self) -> float:
        """What an exhaustive grid would take: powers of two and the largest, each a probe of 30 measured seconds."""
        images = self.largest // self.host.devices
        return _GRID_PROBE_SECONDS * _powers(images) * _powers(self.host.vcpus)


def _powers(most: int) -> int:
    """How many of 1, 2, 4, ... and `most` there are."""
    return most.bit_length() + (most & (most - 1) > 0)
