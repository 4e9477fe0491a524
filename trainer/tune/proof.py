"""The proof of the choice: a longer training with a validation and a checkpoint in it."""

import math

from trainer.tune.figures import PROOF, DoesNotFitError, Figure, OutOfTimeError
from trainer.tune.known import TOLERANCE, Known

SHORTEST_SECONDS = 6.0
_MOST_TRIES = 6
# Training is slower than its parts promise when it is so by this many standard errors.
_SURE_ERRORS = 2.0
# A batch that fitted in training and not in validation is lowered by this share, then by twice as much, and so on.
_LOWER_SHARE = 0.03


def prove(known: Known, batch: int) -> tuple[int, Figure | None]:
    """The batch that holds and its images/s; None when the budget leaves no time for a proof.

    A batch that does not fit after all is lowered, and with it `known.largest`. Where training is slower than its
    parts alone promise, other numbers of threads are tried: `known.threads` is the best of them.
    """
    known.book.reserved_seconds = 0
    for tries in range(_MOST_TRIES):
        try:
            return batch, _with_better_threads(known, batch, _proof(known, batch))
        except DoesNotFitError:
            batch = known.largest = _lower(batch, known.host.devices, _LOWER_SHARE * 2**tries)
        except OutOfTimeError:
            break
    return batch, None


def _proof(known: Known, batch: int) -> Figure:
    prober = known.book.prober
    seconds = min(PROOF.most_seconds, prober.seconds_left() - prober.seconds_for(0))
    if seconds < SHORTEST_SECONDS:
        raise OutOfTimeError
    return known.book.measure("proof", batch, known.threads, PROOF._replace(most_seconds=seconds))


def _lower(batch: int, devices: int, share: float) -> int:
    images = batch // devices
    return max(1, min(images - 1, int(images * (1 - share)))) * devices


def _with_better_threads(known: Known, batch: int, proof: Figure) -> Figure:
    """More threads while they help, else fewer: on a CPU, decoding takes from training what it gives."""
    tried = {known.threads: proof}
    while (threads := _next_threads(known, batch, tried)) is not None:
        try:
            tried[threads] = known.book.measure("training", batch, threads)
        except OutOfTimeError:
            # Some more do no harm where the input was too slow.
            known.threads = max(threads, known.threads) if len(tried) == 1 else _fewest(tried)
            return tried[_fewest(tried)]
    known.threads = _fewest(tried)
    return tried[known.threads]


def _next_threads(known: Known, batch: int, tried: dict[int, Figure]) -> int | None:
    if not known.is_complete:
        return None
    best = _fewest(tried)
    expected = min(known.curve[batch].rate, known.feed) if batch in known.curve else known.goal
    if tried[best].rate >= expected * (1 - TOLERANCE - _SURE_ERRORS * tried[best].error):
        return None
    more = min(known.host.vcpus, max(best + 1, math.ceil(best * expected / tried[best].rate)))
    return next((threads for threads in (more, max(1, best // 2)) if threads not in tried), None)


def _fewest(tried: dict[int, Figure]) -> int:
    best = max(figure.rate for figure in tried.values())
    return min(threads for threads, figure in tried.items() if figure.rate >= best * (1 - TOLERANCE))
