"""A short look at the decode threads alone, with the batch that the recipe asks for: training itself, with few choices.

For a machine on which training and decoding share the processors, and for a time that allows no more.
"""

from dataclasses import replace

from trainer.errors import ConfigError
from trainer.tune.figures import Book, DoesNotFitError, Effort, Figure, OutOfTimeError, Prober
from trainer.tune.known import TOLERANCE, Host, Known
from trainer.tune.result import Tuning, tuning
from trainer.tune.search import Told

_EFFORT = Effort(6.0)


def tune_threads(host: Host, prober: Prober, told: Told = lambda probe, figure: None) -> Tuning:
    """The fewest threads within the tolerance of the best that time allows to try. ConfigError: does not fit."""
    book = Book(prober, told)
    known = Known(host, book, start_batch=host.batch, start_threads=min(host.threads, host.vcpus), largest=host.batch)
    threads, tried, notes = known.start_threads, {}, []
    try:
        while threads is not None:
            tried[threads] = book.measure("training", host.batch, threads, _EFFORT)
            known.threads = _fewest(tried)
            threads = _next(known.threads, tried, host.vcpus)
        book.measure("network", host.batch, 0, _EFFORT)
    except DoesNotFitError as error:
        raise ConfigError(f"batch_size must fit into the devices' memory, got {host.batch}: {error}") from error
    except OutOfTimeError:
        notes.append("the time budget ended before everything was measured")
    if not tried:
        raise ConfigError(f"--budget-seconds must be enough for one probe, got {prober.budget_seconds:g}")
    found = tuning(known, host.batch, host.batch, tried[known.threads], notes)
    return replace(found, largest_batch=None, sufficient_batch=None, proven=False)


def _fewest(tried: dict[int, Figure]) -> int:
    best = max(figure.rate for figure in tried.values())
    return min(threads for threads, figure in tried.items() if figure.rate >= best * (1 - TOLERANCE))


def _next(best: int, tried: dict[int, Figure], most: int) -> int | None:
    """Twice the best while that may be better, else half of it; None: both were tried."""
    return next((threads for threads in (min(2 * best, most), max(1, best // 2)) if threads not in tried), None)
