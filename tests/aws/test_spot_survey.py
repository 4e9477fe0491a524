"""The survey against the double: what is read, and what becomes of a market in which things fail."""

import threading
import time
from datetime import UTC, datetime

import boto3
import pytest
from ansible.module_utils import spot_survey
from ansible.module_utils.region_reads import read_copy_key, read_prices, read_region, read_snapshots
from ansible.module_utils.spot_survey import side_by_side, survey
from botocore.config import Config

P2 = "p2.16xlarge"
WANTED = {
    "types": [P2], "known_types": [P2, "g5.xlarge"], "regions": [], "snapshot_id": "",
    "snapshot_tags": {"dataset": "imagenet"}, "kms_key_alias": "", "timeout_seconds": 60,
}  # fmt: skip


def offer(region="us-west-2", **more):
    return {
        "region": region, "instance_types": [P2], "on_demand_usd_per_hour": 14.4, "spot_usd_per_hour": 1.584
    } | more  # fmt: skip


def two_regions(**more):
    return {"offers": [offer("us-east-1"), offer()]} | more


def states(found):
    return {name: (row["state"], row["reason"]) for name, row in found["regions"].items()}


def test_everything_is_read(aws):
    scenario = {
        "regions": {"us-west-2": {"zones": {"us-west-2a": "usw2-az2"}}, "ap-east-1": {"opt_in": "not-opted-in"},
                    "eu-south-2": {"opt_in": "opted-in"}},
        "offers": [offer(spot_usd_per_hour=[["-40d", 9.0], ["-3d", 2.4], ["-1h", 1.584]], score=7,
                         descriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"])],
        "quotas": [{"region": "us-west-2", "market": "spot", "family": "p", "vcpus": 192}],
        "snapshots": [{"id": "snap-1", "region": "us-west-2", "size_gib": 151, "tags": {"dataset": "imagenet"}},
                      {"id": "snap-2", "region": "us-west-2", "size_gib": 9, "tags": {"dataset": "cifar"}}],
        "page_sizes": {"DescribeSpotPriceHistory": 2, "GetProducts": 1, "DescribeSnapshots": 1},
        "empty_pages": True,
    }  # fmt: skip
    with aws(scenario):
        found = survey(WANTED)
    assert states(found) == {
        "us-west-2": ("surveyed", ""), "eu-south-2": ("surveyed", ""), "ap-east-1": ("not enabled", "not-opted-in"),
    }  # fmt: skip
    west = found["regions"]["us-west-2"]
    assert west["offerings"] == {P2: ["us-west-2a"]}
    assert west["zones"] == {"us-west-2a": {"id": "usw2-az2", "type": "availability-zone"}}
    assert sorted(row["usd"] for row in west["prices"]) == [1.584, 1.584, 2.4, 2.4, 9.0, 9.0]
    assert west["types"] == {P2: {"vcpus": 64, "spot": True}}
    assert west["quotas"] == {"p": 192}
    assert [row["id"] for row in west["snapshots"]] == ["snap-1"]
    assert found["on_demand"] == {P2: {"us-west-2": 14.4}}
    assert found["scores"] == {P2: {"usw2-az2": 7}}
    assert found["notes"] == []


def test_regions_that_fail_take_no_others_along(aws, monkeypatch):
    monkeypatch.setattr(spot_survey, "CONFIG", Config(retries={"mode": "standard", "total_max_attempts": 2}))
    codes = {"us-east-2": "AuthFailure", "eu-west-1": "UnauthorizedOperation", "ap-south-1": "InternalError",
             "sa-east-1": "RequestLimitExceeded"}  # fmt: skip
    faults = [
        {"region": region, "action": "DescribeSpotPriceHistory", "codes": [code], "forever": True}
        for region, code in codes.items()
    ]
    with aws({"offers": [offer("us-west-2"), *map(offer, codes)], "faults": faults}):
        found = states(survey(WANTED))
    assert found.pop("us-west-2") == ("surveyed", "")
    assert {name: (state, reason.split(":")[0]) for name, (state, reason) in found.items()} == {
        name: ("failed", code) for name, code in codes.items()
    }
    assert "(tried 2 times)" in found["sa-east-1"][1]


def test_throttled_calls_are_tried_again_after_a_wait(aws, calls):
    faults = [{"region": "us-west-2", "action": "Describe*", "codes": ["RequestLimitExceeded"] * 2},
              {"action": "GetServiceQuota", "codes": ["ThrottlingException"]}]  # fmt: skip
    with aws(two_regions(faults=faults)):
        found = survey(WANTED)
    assert set(states(found).values()) == {("surveyed", "")}
    assert found["notes"] == []
    assert len([call for call in calls() if call["code"]]) == 3


def test_a_region_that_hangs_is_left_behind(aws):
    fault = {"region": "us-west-2", "action": "DescribeInstanceTypeOfferings", "codes": ["hang"], "forever": True}
    with aws(two_regions(faults=[fault])):
        found = states(survey(WANTED | {"timeout_seconds": 4}))
    assert found == {"us-east-1": ("surveyed", ""), "us-west-2": ("failed", "no answer within 4 s")}


def test_the_list_of_regions_comes_from_the_first_that_answers(aws):
    fault = {"region": "us-east-1", "codes": ["AuthFailure"], "forever": True}
    with aws(two_regions(faults=[fault])):
        found = survey(WANTED)
    assert states(found)["us-west-2"] == ("surveyed", "")
    assert states(found)["us-east-1"][0] == "failed"
    assert found["scores"][P2]
    assert found["on_demand"][P2]["us-west-2"] == 14.4  # the pricing API of another region


def test_no_region_answers(aws):
    all_homes = r"AuthFailure: .*\(us-east-1, us-west-2, eu-west-1, ap-southeast-1\)"
    scenario = two_regions(faults=[{"codes": ["AuthFailure"], "forever": True}])
    with aws(scenario), pytest.raises(OSError, match=all_homes):
        survey(WANTED)


def test_what_cannot_be_read_but_is_not_needed_becomes_a_note(aws):
    starts = {
        "GetServiceQuota": "us-west-2: its Spot quota of P instances could not be read",
        "DescribeSnapshots": "us-west-2: its snapshots could not be read",
        "DescribeInstanceTypes": "us-west-2: its instance types could not be read",
        "GetSpotPlacementScores": f"AWS told no placement scores for {P2}",
        "GetProducts": f"AWS told no on-demand price for {P2}",
    }
    faults = [{"action": action, "codes": ["AccessDenied"], "forever": True} for action in starts]
    with aws({"offers": [offer()], "faults": faults}):
        found = survey(WANTED)
    assert states(found) == {"us-west-2": ("surveyed", "")}
    for start in starts.values():
        assert [note for note in found["notes"] if note.startswith(start) and "AccessDenied" in note], start


class Answers:
    """An EC2 client whose every list is these rows."""

    def __init__(self, *rows):
        self._rows = list(rows)

    def get_paginator(self, _):
        return self

    def paginate(self, **_):
        return [{"SpotPriceHistory": self._rows}]


def test_a_row_of_the_history_that_lacks_something_tells_no_price():
    row = {"AvailabilityZone": "us-west-2a", "InstanceType": P2, "ProductDescription": "Linux/UNIX",
           "SpotPrice": "1.584", "Timestamp": datetime.now(UTC)}  # fmt: skip
    damaged = [{key: value for key, value in row.items() if key != lost} for lost in row]
    assert [found["usd"] for found in read_prices(Answers(row, *damaged, row | {"SpotPrice": "?"}), [P2])] == [1.584, 0]


SNAPSHOTS = [
    {"id": "snap-1", "region": "us-east-1", "size_gib": 150, "tags": {"dataset": "imagenet"}, "encrypted": True},
    {"id": "snap-2", "region": "us-east-1", "size_gib": 200, "tags": {"dataset": "mine", "owner": "me"}},
    {"id": "snap-3", "region": "us-west-2", "size_gib": 200, "tags": {"dataset": "mine"}},
    {"id": "snap-4", "region": "us-west-2", "size_gib": 150, "tags": {"dataset": "imagenet"}, "state": "pending"},
]


@pytest.mark.parametrize(
    ("asked", "east", "west"),
    [
        ({}, ["snap-1"], []),
        ({"snapshot_tags": {"dataset": "mine"}}, ["snap-2"], ["snap-3"]),
        ({"snapshot_tags": {"dataset": "mine", "owner": "me"}}, ["snap-2"], []),
        ({"snapshot_tags": {}, "snapshot_id": "snap-3"}, [], ["snap-3"]),
        ({"snapshot_id": "snap-2"}, ["snap-1", "snap-2"], []),
        ({"snapshot_id": "snap-1"}, ["snap-1"], []),
    ],
)
def test_snapshots_are_found_by_id_and_by_all_tags(aws, asked, east, west):
    with aws(two_regions(snapshots=SNAPSHOTS)):
        rows = [
            read_snapshots(boto3.client("ec2", region_name=region), WANTED | asked, [])
            for region in ("us-east-1", "us-west-2")
        ]
    assert [[row["id"] for row in found] for found in rows] == [east, west]


def test_a_snapshot_tells_its_key_and_one_that_is_not_complete_does_not_count(aws):
    notes = []
    with aws(two_regions(snapshots=SNAPSHOTS)):
        [row] = read_snapshots(boto3.client("ec2", region_name="us-east-1"), WANTED, notes)
        assert read_snapshots(boto3.client("ec2", region_name="us-west-2"), WANTED, notes) == []
    assert row["encrypted"]
    assert row["kms_key_id"]
    assert notes == ["its snapshot snap-4 is not complete (pending: )"]


def test_the_key_for_copies_is_looked_for_where_the_copy_would_go(aws):
    regions = ("us-east-1", "us-west-2", "eu-west-1")
    keys = [{"name": "mine", "region": "us-east-1"}, {"name": "mine", "region": "us-west-2", "enabled": False}]
    with aws({"offers": list(map(offer, regions)), "keys": keys}):
        found = [read_copy_key(boto3.client("kms", region_name=region), "alias/mine") for region in regions]
    assert found == ["", "its key alias/mine is not enabled", "there is no key alias/mine"]


def test_only_the_regions_asked_for(aws, calls):
    with aws(two_regions()):
        found = survey(WANTED | {"regions": ["us-west-2", "mars-1"]})
    assert list(found["regions"]) == ["us-west-2"]
    assert found["notes"] == ["spot_market_regions: AWS has no region mars-1"]
    assert {call["region"] for call in calls() if call["action"].startswith("DescribeI")} == {"us-west-2"}


def test_local_zones_are_told_apart(aws):
    region = {"zones": {"us-west-2a": "usw2-az2"}, "local_zones": {"us-west-2-lax-1a": "usw2-lax1-az1"},
              "local_zones_opted_in": True}  # fmt: skip
    offers = [offer(zones=["us-west-2a"]), offer(zones=["us-west-2-lax-1a"])]
    with aws({"regions": {"us-west-2": region}, "offers": offers}):
        found = survey(WANTED)
    assert found["regions"]["us-west-2"]["zones"]["us-west-2-lax-1a"]["type"] == "local-zone"


def test_regions_are_read_side_by_side(aws, monkeypatch):
    regions = ["us-east-1", "us-east-2", "us-west-2", "eu-west-1", "eu-central-1", "ap-south-1"]
    all_there = threading.Barrier(len(regions), timeout=30)

    def read_when_all_are_there(*arguments):
        all_there.wait()
        return read_region(*arguments)

    monkeypatch.setattr(spot_survey, "read_region", read_when_all_are_there)
    with aws({"offers": [offer(name) for name in regions]}):
        found = survey(WANTED)
    assert states(found) == dict.fromkeys(regions, ("surveyed", ""))


def test_jobs_that_raise_or_do_not_end_are_told_by_name():
    threads = []

    def late():
        threads.append(threading.current_thread())
        time.sleep(60)

    done = side_by_side({"good": lambda: 1, "bad": lambda: {}["x"], "late": late}, 0.2)
    assert {name: outcome[:2] for name, outcome in done.items()} == {
        "good": (1, ""), "bad": (None, "KeyError: 'x'"), "late": (None, "no answer within 0.2 s"),
    }  # fmt: skip
    assert threads[0].daemon, "it would hold up the end of the program"
