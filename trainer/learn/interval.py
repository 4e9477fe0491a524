"""How often to save: what checkpoints cost against what an interruption loses."""

import math

# The first save comes soon: it tells what one costs, and whether the disk takes it.
FIRST_SECONDS = 10.0
# A start takes about so long: saving more often than that saves nothing that anybody would notice.
LEAST_SECONDS = 10.0
# Nobody wants to train longer than this for a second time, however rarely it happens.
MOST_SECONDS = 900.0
# However often machines are lost: a save takes at most so much of the time to the next one.
_MOST_SHARE = 0.05


def seconds_between_checkpoints(cost_seconds: float | None, mean_seconds_between_interruptions: float) -> float:
    """sqrt(2 x cost x mean time between interruptions), within bounds (Young 1974; Daly 2006, to first order).

    cost_seconds: of one whole save. Most of it runs beside training, so training loses less than that: the interval is
    rather too long than too short. None: not known yet.
    """
    if cost_seconds is None:
        return FIRST_SECONDS
    best = math.sqrt(2 * cost_seconds * mean_seconds_between_interruptions)
    return max(min(max(best, LEAST_SECONDS), MOST_SECONDS), cost_seconds / _MOST_SHARE)
