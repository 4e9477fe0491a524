"""How often to save."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.learn.interval import LEAST_SECONDS, MOST_SECONDS, seconds_between_checkpoints


@pytest.mark.parametrize(
    ("cost", "between_interruptions", "seconds"),
    [
        (None, 1800, 10),  # what one costs is not known yet
        (1.0, 1800, 60),  # sqrt(2 x 1 x 1800)
        (2.0, 3600, 120),
        (0.01, 1800, LEAST_SECONDS),  # 6 s
        (1.0, 1e7, MOST_SECONDS),  # 4472 s
        (10.0, 30, 200),  # 24 s would be nearly half of the time
        (100.0, 1e9, 2000),
    ],
)
def test_the_interval_is_youngs_within_bounds(cost, between_interruptions, seconds):
    assert seconds_between_checkpoints(cost, between_interruptions) == pytest.approx(seconds)


@given(st.floats(0.1, 30), st.floats(100, 1e5), st.floats(0.2, 5))
def test_no_other_interval_loses_less(cost, between, factor):
    """Expected loss: the saves, and half an interval at each interruption."""

    def lost(interval):
        return cost / interval + interval / 2 / between

    best = math.sqrt(2 * cost * between)
    if seconds_between_checkpoints(cost, between) == pytest.approx(best):
        assert lost(best) <= lost(best * factor) * (1 + 1e-9)
