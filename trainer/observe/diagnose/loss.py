"""A cause of lost time, and small tools to weigh evidence."""

from dataclasses import dataclass, field

# Less than this part of the time is not worth anybody's attention, and within the noise of most measurements.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Loss:
    """`share`: the part of the time that it costs, 0-1. `strength`: how well the evidence fits, 0-1.

    open: how much it costs cannot be seen from itself: it takes what the roof leaves unexplained.
    """

    verdict: str
    share: float
    strength: float
    evidence: tuple[str, ...] = ()
    advice: str = field(default="", compare=False)
    open: bool = False


def ramp(value: float | None, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, straight between; 0 for an unknown value."""
    if value is None:
        return 0.0
    return min(max((value - low) / (high - low), 0.0), 1.0)
