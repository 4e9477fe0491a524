"""The batch: where the network is fast, and how small it may be for that."""

from contextlib import suppress

from trainer.tune import batch_curve
from trainer.tune.figures import EXPLORE, PROOF, Effort, Figure, OutOfTimeError
from trainer.tune.known import TOLERANCE, Known

_MOST_PROBES = 8
# So many gaps of the curve are looked into, and more while the search is cheaper than this share of an exhaustive grid.
_SURE_GAPS = 2
_GRID_SHARE = 0.2
_NEARLY_EXACT = 0.001
# By what the largest batch must be slower to be given up; twice measured, such a loss is sure.
_SURE_LOSS, _LOSS_IN_NOISE = 0.012, 0.03


def find_batches(known: Known) -> None:
    """Measures the network with some batches: down to the smallest that is as good, and around a peak.

    OutOfTimeError.
    """
    for _ in range(_MOST_PROBES):
        batch = batch_curve.next_smaller(known.curve, _wanted(known), known.host.devices)
        if batch is None:
            break
        _network(known, batch)
    for count in range(_MOST_PROBES):
        batch = _next_towards_peak(known, count)
        if batch is None:
            break
        _network(known, batch)


def choose_batches(known: Known) -> tuple[int, int]:
    """The largest and the smallest batch measured that are within the tolerance of the best."""
    best = batch_curve.best_batch(known.curve, known.feed)
    if known.curve[known.largest].rate < known.goal * (1 - known.loss) and known.book.noise() > _NEARLY_EXACT:
        with suppress(OutOfTimeError):
            for batch in (best, known.largest):
                _network(known, batch, PROOF)
    smallest = _sure_smallest(known)
    if known.curve[known.largest].rate >= known.goal * (1 - _loss_of_largest(known)):
        return known.largest, smallest
    return batch_curve.largest_good(known.curve, _wanted(known)), smallest


def _sure_smallest(known: Known) -> int:
    """The smallest that just seems good enough is likely to be a lucky one: it is measured once more."""
    smallest = batch_curve.smallest_good(known.curve, _wanted(known))
    is_safe = known.curve[smallest].rate >= known.goal * (1 - known.sure_loss)
    if smallest != known.largest and not is_safe:
        with suppress(OutOfTimeError):
            _network(known, smallest, PROOF)
    return batch_curve.smallest_good(known.curve, _wanted(known))


def _loss_of_largest(known: Known) -> float:
    """The largest batch is what users ask for: it is given up only when it is slower for sure."""
    return _LOSS_IN_NOISE if known.is_noisy else max(_SURE_LOSS, known.loss)


def _next_towards_peak(known: Known, count: int) -> int | None:
    """`count`: how many were measured before. Where the input is the limit, there is nothing to look for."""
    curve, devices = known.curve, known.host.devices
    best = batch_curve.best_batch(curve, known.feed)
    if curve[best].rate >= known.feed:
        return None
    if curve[best].rate > curve[known.largest].rate * (1 + TOLERANCE / 4 + 2 * known.error):
        beside = batch_curve.next_beside_peak(curve, best, devices, known.largest)
        if beside is not None:
            return beside
    if count >= _SURE_GAPS and known.spent_seconds > _GRID_SHARE * known.grid_seconds():
        return None
    return batch_curve.next_in_gap(curve, _wanted(known), devices)


def _wanted(known: Known) -> float:
    """images/s of a batch that is as fast as the best."""
    fastest = max(figure.rate for figure in known.curve.values())
    return min(fastest, known.goal * (1 - (TOLERANCE if known.is_noisy else max(_SURE_LOSS, known.loss))))


def _network(known: Known, batch: int, effort: Effort = EXPLORE) -> Figure:
    return known.book.measure("network", batch, 0, effort)
