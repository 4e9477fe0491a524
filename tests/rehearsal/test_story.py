"""The rehearsal's story without its stage: what the seed decides, each day's market, the second bill, the telling."""

import io

import pytest
import yaml
from rich.console import Console

from tests.fakes.aws.scenario import Scenario, value_at
from tests.rehearsal.playing import PROJECT
from tests.rehearsal.story import accounts
from tests.rehearsal.story.market import ON_DEMAND_USD, SPIKE_USD, TYPE, Market
from tests.rehearsal.story.plot import HELD, HOME, PICTURES, plot
from tests.rehearsal.story.report import show, summary
from tests.rehearsal.story.timeline import Timeline

INVENTORY = PROJECT / "inventory/rehearsal"
SETTINGS = yaml.safe_load((INVENTORY / "group_vars/trainers/2-rehearsal.yml").read_text())
MONTH_SECONDS = 730 * 3600


@pytest.mark.parametrize("short", [False, True])
def test_one_seed_tells_one_story(short):
    assert all(plot(seed, short) == plot(seed, short) for seed in range(50))


@pytest.mark.parametrize("seed", range(20))
def test_every_bad_day_comes_once_in_the_whole_story(seed):
    lives = plot(seed, short=False).lives
    assert sorted(life.market for life in lives) == ["calm", "drought", "price spike"]
    assert sorted(life.end for life in lives) == ["finish", "loss", "notice"]
    assert sorted(sum((life.mishaps for life in lives), ())) == ["corrupt checkpoint", "full disk"]
    [held] = [life.held for life in lives if life.held]
    assert held in HELD
    assert lives[-1].end == "finish"
    # A spike is a spike against what there was before; AWS takes back no machine on demand.
    assert lives[0].market == "calm"
    assert lives[-1].market == "drought"


def test_seeds_differ_in_the_order_and_in_the_moments():
    plots = [plot(seed, short=False) for seed in range(60)]
    orders = {tuple((life.end, life.mishaps, life.held) for life in one.lives) for one in plots}
    assert len(orders) > 20
    assert len({one.damaged_record for one in plots}) > 50
    assert len({tuple(one.prices_usd.items()) for one in plots}) > 20
    assert len({plot(seed, short=True).lives for seed in range(60)}) > 10


@pytest.mark.parametrize("seed", range(5))
def test_the_cheapest_place_is_not_where_the_data_is(seed):
    market = Market(plot(seed, short=False))
    found = [market.cheapest()]
    for _ in range(3):
        market.full.add(found[-1])
        found.append(market.cheapest())
    assert not any(zone.startswith(HOME) for zone in found)
    prices = [market.plot.prices_usd[zone] for zone in found]
    assert prices == sorted(set(prices))
    assert max(market.plot.prices_usd.values()) < SETTINGS["spot_market_max_price_usd"] < SPIKE_USD < ON_DEMAND_USD


def test_the_market_is_as_the_day_says():
    market = Market(plot(1, short=False))
    full, dear = market.cheapest(), "us-east-1b"
    market.full.add(full)
    market.spikes[dear] = 100.0
    market.held = "ec2:RunInstances"
    scenario = Scenario.model_validate(market.scenario())
    offers = {offer.zones[0]: offer for offer in scenario.offers}
    assert {zone for zone, offer in offers.items() if value_at(offer.spot_capacity, 0) == 0} == {full}
    usual = market.plot.prices_usd
    assert {zone: value_at(offer.spot_usd_per_hour, 99) for zone, offer in offers.items()} == usual
    assert {zone: value_at(offer.spot_usd_per_hour, 101) for zone, offer in offers.items()} == usual | {dear: SPIKE_USD}
    assert [(fault.action, fault.codes) for fault in scenario.faults] == [("ec2:RunInstances", ("held",))]
    assert market.cheapest() not in (full, dear)


ROWS = [
    ({"kind": "instance", "usd": 0.25}, 0.25),
    ({"kind": "volume", "size_gib": 10, "seconds": MONTH_SECONDS, "copied_from": None}, 0.8),
    ({"kind": "snapshot", "size_gib": 10, "seconds": MONTH_SECONDS / 2, "copied_from": None}, 0.25),
    ({"kind": "snapshot", "size_gib": 10, "seconds": 0, "copied_from": "us-east-1"}, 0.2),
]


@pytest.mark.parametrize("row, usd", ROWS, ids=["instance", "volume", "snapshot", "copy"])
def test_the_ledger_in_dollars(row, usd):
    assert accounts.cost_usd(row) == pytest.approx(usd)


LEDGER = [{"kind": "instance", "id": "i-1", "usd": 0.25}, {"kind": "instance", "id": "i-2", "usd": 0.5}]
BILLS = {
    "the same": ([("i-1", 0.2521), ("i-2", 0.4979)], 0.75, []),
    "a cent more": ([("i-1", 0.26), ("i-2", 0.5)], 0.76, ["i-1: the bill says 0.26", "the sum: the bill says 0.7600"]),
    "one is missing": ([("i-1", 0.25)], 0.75, ["i-2: the bill says None, the ledger 0.5"]),
    "one too many": ([("i-1", 0.25), ("i-2", 0.5), ("i-3", 0.0)], 0.75, ["i-3: the bill says 0.0, the ledger None"]),
    "the sum is wrong": ([("i-1", 0.25), ("i-2", 0.5)], 0.8, ["the sum: the bill says 0.8000, the ledger 0.7500"]),
    "a copy is of its snapshot": ([("i-1", 0.2), ("i-1", 0.05), ("i-2", 0.5)], 0.75, []),
}


@pytest.mark.parametrize("rows, total, wrong", BILLS.values(), ids=BILLS)
def test_a_bill_against_the_ledger(rows, total, wrong):
    bill = {"total_usd": total, "rows": [{"id": name, "usd": usd} for name, usd in rows]}
    found = accounts.differences(bill, LEDGER)
    assert len(found) == len(wrong)
    assert all(line.startswith(words) for line, words in zip(found, wrong, strict=True)), found


def test_the_telling_without_a_terminal_is_plain_lines():
    out = io.StringIO()
    timeline = Timeline(Console(file=out, width=200, highlight=False))
    with timeline.doing("waits"):
        timeline.say("AWS", "takes [it] back", took_seconds=2.4)
    outcomes = [
        {"what": "lost", "ended": "went on", "steps_lost": 40, "seconds_lost": 90.0, "usd": 0.012},
        {"what": "full disk", "ended": "trained on", "steps_lost": 0, "seconds_lost": 0.0, "usd": 0.0},
    ]
    sums = {"bill_usd": 0.1, "ledger_usd": 0.1, "on_demand_usd": 0.4}
    told = summary(plot(7, short=True), timeline, outcomes, [], sums)
    assert told["lost"] == {"steps_lost": 40, "seconds_lost": 90.0, "usd": 0.012}
    assert told["timeline"][0]["words"] == "takes [it] back"
    show(timeline.console, told)
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert lines[0].endswith("AWS takes [it] back (2 s)")
    assert "lost went on 40 1.5 0.012" in lines
    assert any(line.endswith("./kit rehearsal --short --seed 7") for line in lines)


def test_the_inventory_is_that_of_aws_but_for_one_file():
    aws = PROJECT / "inventory/aws"
    links = {path: path.resolve() for path in INVENTORY.rglob("*") if path.is_symlink()}
    assert [path.name for path in INVENTORY.rglob("*") if path.is_file() and not path.is_symlink()] == [
        "2-rehearsal.yml"
    ]
    there = {aws / "hosts.yml", aws / "aws_ec2.yml", *(aws / "group_vars").iterdir()}
    assert set(links.values()) == there


def test_its_sizes_are_those_of_the_story():
    from tests.rehearsal.story import equipment, renting

    profiles = yaml.safe_load((PROJECT / "inventory/aws/group_vars/all/instance_profiles.yml").read_text())
    assert SETTINGS["spot_market_instance_types"] == [TYPE]
    assert profiles["instance_profiles"][TYPE]["gpus"] == equipment.GPUS
    assert SETTINGS["spot_market_images"] == PICTURES
    assert SETTINGS["trainer_batch_size"] == renting.BATCH
    assert PICTURES % renting.BATCH == 0  # the end is told in whole epochs
