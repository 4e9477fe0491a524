"""Which price counts, and what it did in the last week."""

import json
import time
from datetime import timedelta

import pytest
from ansible.module_utils.market_limits import parse_deadline
from ansible.module_utils.market_prices import last_week, linux_rows, on_demand_prices, price_now
from hypothesis import given
from hypothesis import strategies as st
from market_rules import NOW, price

VPC = "Linux/UNIX (Amazon VPC)"


def rows_of(*rows):
    return linux_rows(rows, "us-west-2a", "p2.16xlarge", NOW)


@pytest.mark.parametrize(
    ("rows", "usd"),
    [
        ([price(5.0, 9), price(1.584, 2)], 1.584),
        ([price(1.584, 2), price(5.0, 9)], 1.584),  # AWS promises no order
        ([price(5.0, 2), price(1.584, 1, description=VPC)], 1.584),
        ([price(1.584, 2, description=VPC), price(5.0, 1)], 5.0),
        ([price(2.0, 1), price(3.0, 1, description=VPC)], 3.0),
        ([price(9.0, 1, description="Windows"), price(5.0, 2)], 5.0),
        ([price(9.0, 1, zone="us-west-2b"), price(5.0, 2)], 5.0),
        ([price(9.0, 1, instance_type="p2.xlarge"), price(5.0, 2)], 5.0),
        ([price(5.0, 29 * 24)], 5.0),
        ([price(0.0, 1), price(5.0, 2)], 5.0),
        ([price(float("nan"), 1), price(5.0, 2)], 5.0),
        ([price(float("inf"), 1), price(5.0, 2)], 5.0),
        ([price(-1.0, 1), price(5.0, 2)], 5.0),
        ([price(9.0, -1), price(5.0, 2)], 5.0),  # of the future
    ],
)
def test_the_newest_row_of_either_linux_description_counts(rows, usd):
    assert price_now(rows_of(*rows), NOW)[0]["usd"] == usd


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([], "unknown"),
        ([price(9.0, description="Windows")], "unknown"),
        ([price(0.0)], "unknown"),
        ([price(5.0, 30 * 24 + 1)], "stale"),
    ],
)
def test_no_row_is_unknown_and_an_old_one_is_stale(rows, reason):
    found, why = price_now(rows_of(*rows), NOW)
    assert found is None
    assert reason in why


@pytest.mark.parametrize(
    ("rows", "median", "worst"),
    [
        ([price(2.0, 1)], 2.0, 2.0),
        ([price(2.0, 20 * 24)], 2.0, 2.0),
        ([price(9.0, 20 * 24), price(2.0, 10 * 24)], 2.0, 2.0),
        ([price(9.0, 100), price(2.0, 90)], 2.0, 9.0),  # 9.0 held for 10 hours of 100
        ([price(9.0, 100), price(2.0, 40)], 9.0, 9.0),
        ([price(9.0, 8 * 24), price(2.0, 24)], 9.0, 9.0),  # what held when the week began counts
    ],
)
def test_the_week_is_weighted_by_how_long_a_price_held(rows, median, worst):
    assert last_week(rows_of(*rows), NOW) == (median, worst)


@given(st.lists(st.tuples(st.floats(0.01, 200), st.floats(0, 80 * 24)), min_size=1))
def test_median_and_worst_are_prices_that_were_told_and_in_order(pairs):
    rows = rows_of(*(price(usd, hours) for usd, hours in pairs))
    median, worst = last_week(rows, NOW)
    told = [row["usd"] for row in rows]
    assert median in told
    assert median <= worst
    assert rows[-1]["usd"] <= worst <= max(told)


def product(usd, region="us-east-1", **attributes):
    return json.dumps({
        "product": {"attributes": {
            "regionCode": region, "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
            "capacitystatus": "Used", "locationType": "AWS Region", **attributes,
        }},
        "terms": {"OnDemand": {"A": {"priceDimensions": {"B": {"unit": "Hrs", "pricePerUnit": {"USD": usd}}}}}},
    })  # fmt: skip


def test_on_demand_is_plain_linux_on_shared_machines_in_regions():
    products = [
        product("14.4000000000"), product("15.5520000000", "eu-west-1"), product("20", operatingSystem="Windows"),
        product("21", tenancy="Dedicated"), product("22", preInstalledSw="SQL Std"),
        product("23", capacitystatus="UnusedCapacityReservation"), product("0.0000000000"), product("inf"),
        product("?"), product("25", instanceType="p2.xlarge"),
        product("24", "us-east-1", locationType="AWS Local Zone"),
    ]  # fmt: skip
    assert on_demand_prices(products, "p2.16xlarge") == {"us-east-1": 14.4, "eu-west-1": 15.552}


@pytest.fixture
def far_away(monkeypatch):
    """A machine whose local time is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("48", 48), ("0.5", 0.5), ("2026-12-03T12:00", 48), ("2026-12-03 12:00:00", 48), ("2026-12-03T12:00:00Z", 48),
        ("2026-12-03T14:00:00+02:00", 48),
    ],  # fmt: skip
)
def test_a_deadline_is_a_time_or_hours(far_away, text, hours):
    assert parse_deadline(text, NOW) == NOW + timedelta(hours=hours)


def test_no_deadline():
    assert parse_deadline("", NOW) is None


@pytest.mark.parametrize("text", ["soon", "inf", "nan", "1e12", "99999999", "2026-13-01"])
def test_a_wrong_deadline_is_an_error_in_words(text):
    with pytest.raises(ValueError, match=f'spot_market_deadline must be .* got "{text}"'):
        parse_deadline(text, NOW)
