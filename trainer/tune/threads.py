"""The fewest decode threads that feed the devices."""

import math

from trainer.tune.figures import EXPLORE, PROOF
from trainer.tune.known import NOISY_TOLERANCE, TOLERANCE, Known

_MOST_PROBES = 5
# Up to here the law's word is taken; with more threads, what it says is measured.
_FEW = 8
_NEAR_SHARE = 0.05
# Between what is sure to be enough and what is sure to be more than needed: twice the fewest is the limit.
_MOST_TIMES = 1.5
_MOST_TIMES_IN_NOISE = 1.9
# More threads for each share that the figures may be wrong by.
_THREADS_AN_ERROR = 8


def find_threads(known: Known) -> None:
    """Measures the input with some numbers of threads and sets `known.threads`. OutOfTimeError.

    First with one and with all, which give Amdahl's law; then where the law, or the disk's limit, says that the answer
    lies.
    """
    book, most = known.book, known.host.vcpus
    for threads in sorted({1, most}):
        book.figure("input", 0, threads)
    known.threads = _choice(known)
    if known.is_noisy:
        _measure_limits_again(known)
    for _ in range(_MOST_PROBES):
        known.threads = _choice(known)
        likely = math.ceil(min(most, known.decode.likely_threads(known.goal * (1 - TOLERANCE * 3 / 4))))
        if _is_settled(known, likely):
            break
        book.measure("input", 0, likely, PROOF if known.is_noisy and book.has_time_for(PROOF) else EXPLORE)
    known.threads = _choice(known)


def _measure_limits_again(known: Known) -> None:
    """The figures that all else is compared with must be better than the others, where that leaves time for threads."""
    for place in (("network", known.largest, 0), ("input", 0, known.host.vcpus), ("disk", 0, 0)):
        figure = known.book.known(*place)
        if figure.rate < 1.1 * known.goal and figure.is_vague and known.book.has_time_for(PROOF, PROOF):
            known.book.measure(*place, PROOF)


def _is_settled(known: Known, likely: int) -> bool:
    if any(abs(likely - threads) <= _NEAR_SHARE * threads for threads in known.decode.points):
        return True
    return known.host.vcpus <= _FEW and len(known.decode.not_limited_by_disk()) > 1


def _choice(known: Known) -> int:
    most = known.host.vcpus

    def fewest(share: float) -> int:
        return math.ceil(min(most, known.decode.sure_threads(known.goal * share)) - 1e-9)

    by_speed = fewest(1 - TOLERANCE)
    wanted = max(fewest(1 - known.loss), by_speed * (1 + _THREADS_AN_ERROR * known.error))
    enough = max(by_speed + 1, _MOST_TIMES * by_speed)
    if known.is_noisy:
        enough = min(enough, math.ceil(_MOST_TIMES_IN_NOISE * fewest(1 - NOISY_TOLERANCE)))
    return min(most, int(min(wanted, enough) + 1e-9))
