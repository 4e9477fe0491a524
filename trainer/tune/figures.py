"""What was measured: each probe's images/s, taken several times, and how sure their mean is."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

What = Literal["training", "network", "input", "disk", "proof", "float32"]

# Half of the 95 % confidence interval of a figure, as a share of it: what is asked of each.
CONFIDENCE_SHARE = 0.03
FEWEST_MEASUREMENTS = 3
_NORMAL = 1.96
# 97.5 % quantiles of Student's t distribution for 1, 2, 3, ... degrees of freedom.
_STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


class Effort(NamedTuple):
    """How long a probe measures at most; it ends earlier when its confidence interval is as narrow as asked."""

    most_seconds: float
    confidence_share: float = CONFIDENCE_SHARE


# To find the way, and to be relied on.
EXPLORE = Effort(10.0)
PROOF = Effort(30.0, CONFIDENCE_SHARE / 2)


class Probe(NamedTuple):
    """What to measure.

    what: "training" is all of it; "network": without input; "input": without network; "disk": only reading; "proof":
    training with a validation and a checkpoint in it; "float32": the network in that precision. batch: on all devices
    together. noise: the relative deviation of one measurement, as far as it is known already.
    """

    what: What
    batch: int
    threads: int
    effort: Effort
    noise: float


@dataclass(frozen=True)
class Measured:
    """images/s, several times after the warm-up, and the memory of the fullest device (None: it has none)."""

    rates: tuple[float, ...]
    memory_mb: float | None = None


class OutOfTimeError(Exception):
    """The time budget leaves no room for another probe."""


class DoesNotFitError(Exception):
    """The devices' memory is too small for this batch."""


class Figure(NamedTuple):
    """A mean of several measurements. error: its standard error as a share of it."""

    rate: float
    error: float

    @property
    def confidence_share(self) -> float:
        """Half of the 95 % confidence interval, as a share of the mean."""
        return _NORMAL * self.error

    @property
    def is_vague(self) -> bool:
        return self.confidence_share > PROOF.confidence_share


def is_known(rates: list[float], share: float, noise: float) -> bool:
    """Whether their mean is sure to +-share; `noise` keeps a few that agree by chance from being believed."""
    if len(rates) < FEWEST_MEASUREMENTS:
        return False
    return max(confidence_share(rates), _NORMAL * noise / math.sqrt(len(rates))) <= share


def confidence_share(rates: list[float]) -> float:
    """Half of the 95 % confidence interval of the mean of two or more, as a share of it."""
    student = _STUDENT[min(len(rates) - 1, len(_STUDENT)) - 1]
    return student * math.sqrt(_square_sum(rates) / (len(rates) - 1) / len(rates)) / _mean(rates)


def _mean(rates: list[float]) -> float:
    return math.fsum(rates) / len(rates)


def _square_sum(rates: list[float]) -> float:
    mean = _mean(rates)
    return math.fsum((rate - mean) ** 2 for rate in rates)


class Prober(Protocol):
    """Whatever measures: a host, or the model of one. Time counts against the budget."""

    def __call__(self, probe: Probe) -> Measured:
        """DoesNotFitError; OutOfTimeError when the budget ends first."""

    def seconds_for(self, most_seconds: float) -> float:
        """What a probe with so many measured seconds takes at most, its start included."""

    def seconds_left(self) -> float:
        """Of the budget."""

    def most_batch(self) -> int | None:
        """Larger ones are not worth a try; None: all are."""


@dataclass
class Book:
    """Everything measured so far; `prober` measures more. `told(probe, figure)` hears of it (None: did not fit).

    reserved_seconds: of the budget, for what must come last.
    """

    prober: Prober
    told: Callable[[Probe, Figure | None], None] = lambda probe, figure: None
    reserved_seconds: float = 0.0
    rates: dict[tuple, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory: dict[int, float] = field(default_factory=dict)
    too_large: set[int] = field(default_factory=set)
    probes: int = 0

    def measure(self, what: What, batch: int, threads: int, effort: Effort = EXPLORE) -> Figure:
        """Another probe, together with what is known of the same thing. DoesNotFitError, OutOfTimeError."""
        probe = Probe(what, batch, threads, effort, self.noise())
        if not self.has_time_for(effort):
            raise OutOfTimeError
        try:
            measured = self.prober(probe)
        except DoesNotFitError:
            self.probes += 1
            self.too_large.add(batch)
            self.told(probe, None)
            raise
        self.probes += 1
        self.rates[_place(what, batch, threads)] += measured.rates
        if measured.memory_mb is not None:
            self.memory[batch] = max(measured.memory_mb, self.memory.get(batch, 0.0))
        figure = self.known(what, batch, threads)
        self.told(probe, figure)
        return figure

    def has_time_for(self, *efforts: Effort) -> bool:
        seconds = sum(self.prober.seconds_for(effort.most_seconds) for effort in efforts)
        return seconds <= self.prober.seconds_left() - self.reserved_seconds

    def figure(self, what: What, batch: int, threads: int, effort: Effort = EXPLORE) -> Figure:
        """What is known, measured first if nothing is."""
        return self.known(what, batch, threads) or self.measure(what, batch, threads, effort)

    def known(self, what: What, batch: int, threads: int) -> Figure | None:
        rates = self.rates.get(_place(what, batch, threads))
        if not rates:
            return None
        return Figure(_mean(rates), self.noise() / math.sqrt(len(rates)))

    def noise(self) -> float:
        """The relative standard deviation of one measurement, over all probes together."""
        series = [rates for rates in self.rates.values() if len(rates) > 1]
        freedom = sum(len(rates) - 1 for rates in series)
        squares = math.fsum(_square_sum(rates) / _mean(rates) ** 2 for rates in series)
        return math.sqrt(squares / freedom) if freedom else 0.0

    def of(self, what: What) -> dict[int, Figure]:
        """All figures of the network by batch, or of the input by threads."""
        index = {"network": 1, "input": 2}[what]
        return {place[index]: self.known(*place) for place in sorted(self.rates) if place[0] == what}


def _place(what: What, batch: int, threads: int) -> tuple[What, int, int]:
    """The network does not care for threads, the input not for batches, the disk for neither."""
    return what, 0 if what in ("input", "disk") else batch, 0 if what in ("network", "float32", "disk") else threads
