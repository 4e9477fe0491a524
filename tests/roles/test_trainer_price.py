"""price.json after another one: what a run has cost never goes back."""

import sys

import pytest
from playing import ROLES

from trainer.observe.costs import costs

sys.path.insert(0, str(ROLES / "trainer" / "filter_plugins"))
from trainer_price import trainer_price_after  # noqa: E402

HOUR = 3600
PRICE = {
    "instance_id": "i-1", "instance_type": "p2.xlarge", "region": "us-west-2", "zone": "us-west-2a", "market": "spot",
    "price_usd_per_hour": 2.0, "on_demand_usd_per_hour": 9.0, "launched_at": 0.0, "spent_before_usd": 1.0,
    "spent_before_on_demand_usd": 5.0, "budget_usd": None,
}  # fmt: skip


def told(price, now):
    money = costs(price, now, None)
    return money["so_far_usd"], money["on_demand_so_far_usd"]


def test_a_first_price_and_that_of_another_host_are_taken_as_they_are():
    for before in ({}, [], {"launched_at": None}, PRICE | {"instance_id": "i-0"}):
        assert trainer_price_after(PRICE, before, 9 * HOUR) == PRICE


def test_the_same_price_stays_as_it_was():
    assert trainer_price_after(PRICE, PRICE, 9 * HOUR) == PRICE


@pytest.mark.parametrize("rates", [(1.0, 9.0), (3.0, 9.0), (2.0, 8.0), (2.0, None)])
def test_another_price_counts_from_now_on(rates):
    cheaper = PRICE | dict(zip(("price_usd_per_hour", "on_demand_usd_per_hour"), rates, strict=True))
    after = trainer_price_after(cheaper, PRICE, 10 * HOUR)
    assert told(after, 10 * HOUR)[0] == told(PRICE, 10 * HOUR)[0] == 21
    assert told(after, 11 * HOUR)[0] == 21 + rates[0]
    if rates[1]:
        assert told(after, 11 * HOUR)[1] == told(PRICE, 10 * HOUR)[1] + rates[1]
    # Told again, nothing changes; and once more at the old price it goes on.
    assert trainer_price_after(cheaper, after, 12 * HOUR) == after
    assert told(trainer_price_after(PRICE, after, 12 * HOUR), 12 * HOUR)[0] == 21 + 2 * rates[0]


def test_what_ended_meanwhile_is_added():
    more = PRICE | {"spent_before_usd": 4.0}
    assert told(trainer_price_after(more, PRICE, HOUR), HOUR) == (6.0, 14.0)
