"""Surveys -> ranked plans: the article's figures, every reason to reject, the limits."""

from datetime import timedelta

import pytest
from ansible.module_utils.market_offers import make_plan
from ansible.module_utils.market_page import render_page
from ansible.module_utils.market_table import failure_message, render_table
from ansible.module_utils.market_types import alternatives, refusal
from ansible.module_utils.run_costs import PARTS, run_costs
from hypothesis import given
from hypothesis import strategies as st
from market_rules import NOW, P2, PROFILES, RATES, price, region, request, snapshot, survey

WEST = {"us_west_2": region(price(1.584))}


def spot(plan):
    return [offer for offer in plan["offers"] if offer["market"] == "spot"]


def reasons(plan):
    return [row["reason"] for row in plan["rejected"]]


def test_the_article_s_run_costs_720_and_79_dollars_20():
    plan = make_plan(survey(**WEST), request())
    compute = {offer["market"]: round(offer["cost_usd"]["compute"], 2) for offer in plan["offers"]}
    assert compute == {"spot": 79.20, "on_demand": 720.00}
    assert round(spot(plan)[0]["discount"], 2) == 0.89
    assert round(spot(plan)[0]["hours"], 2) == 50.00


def test_every_part_of_the_costs():
    # 150 GB are read in 0.4 h; an interruption loses 30 s of work and 15 minutes.
    costs = run_costs(2.0, 50.0, 0.8, 151.2, "us-east-1", 60.0, RATES, "us-west-2")
    lost = 50 * 0.8 * (30 / 3600 + 0.25)
    months = (50 + lost + 0.4) / 730
    assert costs == pytest.approx({
        "compute": 100.0, "copy": 151.2 * (0.02 + 0.05 * months), "volume": 151.2 * 0.08 * months, "warm_up": 0.8,
        "lost_work": 2 * lost, "total": 100.8 + 2 * lost + 151.2 * (0.02 + 0.13 * months),
    }, abs=1e-5)  # fmt: skip
    assert run_costs(2.0, 50.0, 0.0, 150, None, 60.0, RATES, "us-west-2")["copy"] == 0
    assert run_costs(2.0, 50.0, 0.0, 150, None, 60.0, RATES, "us-west-2")["lost_work"] == 0


positive = st.floats(0.001, 1000)


@given(positive, positive, st.floats(0, 5), positive, st.sampled_from([None, "us-east-1", "sa-east-1"]), positive)
def test_the_total_is_the_sum_and_no_part_is_negative(price, hours, rate, volume, copied, interval):
    costs = run_costs(price, hours, rate, volume, copied, interval, RATES, "us-west-2")
    assert costs["total"] == pytest.approx(sum(costs[part] for part in PARTS))
    assert min(costs.values()) >= 0
    assert costs["compute"] == pytest.approx(price * hours, abs=1e-6)


def test_a_plan_ranks_by_the_whole_run_not_by_the_price():
    cheap_but_without_data = region(price(1.56, zone="sa-east-1a"), zones=["sa-east-1a"])
    plan = make_plan(
        survey(us_west_2=region(price(1.584), snapshots=[snapshot()]), sa_east_1=cheap_but_without_data), request()
    )
    assert [(offer["region"], offer["snapshot_present"]) for offer in spot(plan)] == [
        ("us-west-2", True), ("sa-east-1", False),
    ]  # fmt: skip
    assert [offer["rank"] for offer in plan["offers"]] == [1, 2, 3, 4]
    assert len({tuple(sorted(offer)) for offer in plan["offers"]}) == 1, "not the same keys in each offer"
    totals = [offer["cost_usd"]["total"] for offer in plan["offers"]]
    assert totals == sorted(totals)
    assert spot(plan)[0]["cost_usd"]["copy"] == 0 < spot(plan)[1]["cost_usd"]["copy"]


def test_the_data_is_copied_from_where_leaving_is_cheapest():
    found = survey(
        ap_southeast_2=region(snapshots=[snapshot()]), us_east_1=region(snapshots=[snapshot()]), **WEST
    )
    assert {offer["copy_from"] for offer in spot(make_plan(found, request()))} == {"us-east-1"}


def test_types_compete_by_what_the_run_costs():
    both = region(
        price(1.584), price(0.20, instance_type="g5.xlarge"), types=[P2, "g5.xlarge"],
    )  # fmt: skip
    plan = make_plan(survey(us_west_2=both), request(instance_types=[P2, "g5.xlarge"]))
    best = plan["offers"][0]
    assert best["instance_type"] == "g5.xlarge"
    assert best["images_per_second"] == pytest.approx(256 * 0.9)
    assert "90% of the roof of 256" in best["images_per_second_source"]


@pytest.mark.parametrize(
    ("changes", "speed", "source"),
    [
        ({}, 711.76, "the article"),
        ({"measured_images_per_second": {P2: 750}}, 750, "measured by the tuner"),
        ({"profiles": {P2: PROFILES["p2.8xlarge"]}}, 395.84 * 0.9, "90% of the roof of 396"),
    ],
)
def test_a_tuning_counts_more_than_a_publication(changes, speed, source):
    offer = spot(make_plan(survey(**WEST), request(**changes)))[0]
    assert offer["images_per_second"] == pytest.approx(speed)
    assert source in offer["images_per_second_source"]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (region(), "unknown"),
        (region(price(1.0, 31 * 24)), "stale"),
        (region(price(1.0), quotas={"p": 0}), "Spot quota for P instances is 0 vCPUs here, and this type needs 64"),
        (region(price(1.0), quotas={"p": 32}), "is 32 vCPUs"),
        (region(price(1.0), types=[]), "not offered in this region"),
        (region(price(1.0), price(1.0, zone="us-west-2b")), "not offered in this zone"),
        (region(price(1.0)) | {"types": {P2: {"vcpus": 64, "spot": False}}}, "not offer this type"),
        (region(price(1.0)) | {"zones": {"us-west-2a": {"id": "x", "type": "local-zone"}}}, "it is a local zone"),
        ({**region(), "state": "failed", "reason": "AuthFailure: no"}, "the region failed: AuthFailure: no"),
        ({**region(), "state": "not enabled", "reason": "not-opted-in"}, "not enabled for this account: not-opted-in"),
    ],
)
def test_why_an_offer_is_none(found, reason):
    plan = make_plan(survey(us_west_2=found), request())
    assert any(reason in text for text in reasons(plan))
    assert all(set(row) >= {"region", "instance_type", "reason"} for row in plan["rejected"])


def test_a_type_that_only_a_local_zone_offers_is_not_to_be_had_on_demand_either():
    found = region(price(1.0)) | {"zones": {"us-west-2a": {"id": "x", "type": "local-zone"}}}
    assert make_plan(survey(us_west_2=found), request())["offers"] == []


def test_a_quota_that_could_not_be_read_rejects_nothing():
    offer = spot(make_plan(survey(us_west_2=region(price(1.0), quotas={})), request()))[0]
    assert offer["quota_vcpus"] is None


@pytest.mark.parametrize("usd", [14.4, 20.0])
def test_spot_that_is_no_cheaper_is_said_to_be_no_gain(usd):
    plan = make_plan(survey(us_west_2=region(price(usd))), request())
    assert spot(plan)[0]["remarks"][0].startswith("no gain")
    assert plan["offers"][0]["market"] == "on_demand"
    assert "no gain" in render_table(plan, plan["baseline"])


def test_on_demand_falls_back_to_the_shipped_table_and_says_so():
    plan = make_plan(survey(on_demand=None, **WEST), request())
    on_demand = next(offer for offer in plan["offers"] if offer["market"] == "on_demand")
    assert (on_demand["price_usd_per_hour"], on_demand["zone"]) == (14.4, None)
    assert "the kit's table of 20" in on_demand["remarks"][0]


def test_an_unknown_price_on_demand_is_no_price():
    plan = make_plan(
        survey(on_demand=None, me_south_1=region(price(1.0, zone="me-south-1a"), zones=["me-south-1a"])), request()
    )
    assert [offer["market"] for offer in plan["offers"]] == ["spot"]
    assert (plan["offers"][0]["on_demand_usd_per_hour"], plan["offers"][0]["discount"]) == (None, None)
    assert any("its price is unknown" in reason for reason in reasons(plan))
    assert "nobody can say what spot saves" in render_table(plan, plan["baseline"])


@pytest.mark.parametrize(
    ("limit", "left", "reason"),
    [
        ({"max_price_usd": 5.0}, {"spot"}, "above the cap of $5"),
        ({"budget_usd": 200.0}, {"spot"}, "in all is above $200.00"),
        ({"deadline": NOW + timedelta(hours=52)}, {"on_demand"}, "(spot_market_deadline)"),
        ({"max_price_usd": 1.0}, set(), "above the cap of $1"),
        ({"max_price_by_region_usd": {"us-west-2": 5, "eu-west-1": 1}}, {"spot"}, "_by_region_usd of us-west-2)"),
        ({"max_price_usd": 1.0, "max_price_by_region_usd": {"us-west-2": 5}}, set(), "(spot_market_max_price_usd)"),
    ],
)
def test_limits_filter_and_say_what(limit, left, reason):
    plan = make_plan(survey(**WEST), request(**limit))
    assert {offer["market"] for offer in plan["offers"]} == left
    assert any(reason in text for text in reasons(plan))
    assert "The same run on demand: $726" in render_table(plan, plan["baseline"])


def test_an_encrypted_snapshot_needs_its_key_where_it_is_copied_to():
    found = survey(us_east_1=region(snapshots=[snapshot(encrypted=True)]), **WEST)
    assert spot(make_plan(found, request()))
    found["regions"]["us-west-2"]["copy_key"] = "there is no key alias/mine"
    plan = make_plan(found, request())
    assert "the snapshot is encrypted and cannot be copied there: there is no key alias/mine" in reasons(plan)
    assert not [offer for offer in plan["offers"] if offer["region"] == "us-west-2"]
    found["regions"]["us-east-1"]["snapshots"] = [snapshot()]
    assert spot(make_plan(found, request())), "a plain snapshot needs no key"


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (PROFILES[P2], ""),
        (PROFILES[P2] | {"mxnet_wheel": ""}, "no MXNet wheel has code for its K80"),
        (PROFILES[P2] | {"driver_branch": None}, "no driver runs its K80"),
        ({"refused": "it is a toaster"}, "it is a toaster"),
        ({"gpu_model": "K80", "vcpus": 4, "roof_source": "x"}, "has no interruptions_per_hour, roof_images_per_second"),
        ({}, "has no gpu_model, vcpus, "),
        (None, "has no row"),
    ],
)
def test_why_mxnet_cannot_run_on_a_type(profile, reason):
    assert reason in refusal("x", {"x": profile})
    assert bool(reason) == bool(refusal("x", {"x": profile}))


zone_prices = st.lists(st.tuples(st.floats(0, 30), st.floats(0, 60 * 24)), max_size=3)


@given(st.lists(zone_prices, min_size=1, max_size=4), st.sampled_from([None, 0, 63, 64, 640]))
def test_every_zone_is_an_offer_or_has_a_reason(zones, quota):
    names = [f"us-west-2{letter}" for letter in "abcd"[: len(zones)]]
    prices = [price(usd, hours, zone) for zone, rows in zip(names, zones, strict=True) for usd, hours in rows]
    plan = make_plan(survey(us_west_2=region(*prices, zones=names, quotas={"p": quota})), request())
    offered, refused = [offer["zone"] for offer in spot(plan)], [row["zone"] for row in plan["rejected"]]
    assert sorted(offered + refused) == names
    assert not offered or quota in (None, 64, 640)
    assert [offer["rank"] for offer in plan["offers"]] == list(range(1, len(plan["offers"]) + 1))
    assert all(offer["price_usd_per_hour"] > 0 for offer in plan["offers"])


def test_no_snapshot_anywhere_is_told():
    plan = make_plan(survey(**WEST), request())
    assert "no region surveyed has a snapshot of the data set (dataset=imagenet)" in plan["notes"][0]
    assert spot(plan)[0]["cost_usd"]["copy"] == 0


def test_the_size_of_the_snapshot_counts():
    small, large = (
        make_plan(survey(us_west_2=region(price(1.0), snapshots=[snapshot(size)])), request())["offers"][0]["cost_usd"]
        for size in (150, 1500)
    )
    assert large["volume"] == pytest.approx(10 * small["volume"], rel=0.1)
    assert large["warm_up"] == pytest.approx(10 * small["warm_up"], rel=1e-5)


def test_a_region_s_own_snapshot_gives_the_size_of_its_volume():
    small = region(price(1.0), snapshots=[snapshot(150)])
    large = region(snapshots=[snapshot(1500)])
    alone, beside_a_larger = survey(us_west_2=small), survey(us_west_2=small, us_east_1=large)
    costs = [spot(make_plan(found, request()))[0]["cost_usd"] for found in (alone, beside_a_larger)]
    assert costs[0] == costs[1]


def test_placement_scores_by_zone_else_by_region():
    found = survey(us_west_2=region(price(1.0), price(1.1, zone="us-west-2b"), zones=["us-west-2a", "us-west-2b"]))
    found["scores"] = {P2: {"id-us-west-2b": 3, "us-west-2": 9}}
    assert [offer["placement_score"] for offer in spot(make_plan(found, request()))] == [9, 3]


def test_when_nothing_is_left_the_nearest_are_named():
    found = survey(us_west_2=region(types=["g5.12xlarge", "g4dn.xlarge", "p5.48xlarge"]))
    wanted = request(instance_types=[P2, "p5.48xlarge", "g4nd.xlarge"])
    plan = make_plan(found, wanted)
    assert [name for name, _, _ in alternatives(found, wanted)] == ["g5.12xlarge", "g4dn.xlarge"]
    message = failure_message(plan, alternatives(found, wanted))
    for part in (
        "p2.16xlarge: not offered in this region (us-west-2)", "p5.48xlarge: MXNet's last wheels hold no code",
        "did you mean g4dn.xlarge?", "g5.12xlarge, about 922 images/s: us-west-2",
    ):  # fmt: skip
        assert part in message


def test_the_page_holds_both_charts_and_asks_nothing_of_the_network():
    found = survey(us_west_2=region(price(1.584), price(9.0, 50)))
    plan = make_plan(found, request())
    page = render_page(plan, found, render_table(plan, plan["baseline"]))
    own = page[: page.index("<script>")] + page[page.rindex("<h1>"):]
    for part in ("Spot price by zone", "Cost of the run by offer", "p2.16xlarge us-west-2a", "lost work", "on demand"):
        assert part in own
    assert "<script src" not in page
    assert "<link" not in page
