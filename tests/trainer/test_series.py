"""Series made fit to draw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.observe.series import keep, numbers, smooth

VALUES = st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=400)


@given(st.lists(VALUES, min_size=1, max_size=3), st.integers(20, 100))
def test_few_rows_are_kept_and_no_extreme_is_lost(columns, points):
    rows = min(map(len, columns))
    columns = [column[:rows] for column in columns]
    kept = keep(columns, points)
    assert len(kept) <= max(points, rows if rows <= points else 0)
    assert kept == sorted(set(kept))
    assert {0, rows - 1} <= set(kept)
    for column in columns:
        known = [value for value in column if value is not None]
        drawn = [column[row] for row in kept if column[row] is not None]
        assert (min(known, default=0), max(known, default=0)) == (min(drawn, default=0), max(drawn, default=0))
        assert (None in column) == (None in [column[row] for row in kept])


def test_a_short_series_is_kept_whole():
    assert keep([[1.0, None, 3.0]], points=3) == [0, 1, 2]


def test_both_ends_of_a_gap_are_kept():
    column = [1.0] * 400 + [None] * 200 + [1.0] * 400
    assert {400, 599} <= set(keep([column], points=12))


@given(VALUES)
def test_a_smooth_series_stays_within_its_values_and_keeps_its_gaps(values):
    result = smooth(values, 10)
    known = [value for value in values if value is not None]
    assert [value is None for value in result] == [value is None for value in values]
    for value in result:
        assert value is None or min(known) - 1e-3 <= value <= max(known) + 1e-3


def test_smoothing_is_the_mean_of_the_neighbours():
    assert smooth([0.0, 3.0, 6.0, None, 9.0, 3.0], 3) == [1.5, 3.0, 4.5, None, 6.0, 6.0]


@pytest.mark.parametrize("bad", [None, "7", True, [7], {"b": 7}, float("nan"), float("inf"), 10**400])
def test_what_is_no_number_is_a_gap(bad):
    assert numbers([{"a": 1.5}, {"a": bad}, {}], "a") == [1.5, None, None]


def test_a_path_leads_into_an_event():
    assert numbers([{"a": {"b": 2}}, {"a": 3}], "a", "b") == [2, None]
