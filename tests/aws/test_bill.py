"""The bill of a run against the double's own ledger: what was seen, what it cost, what is still there."""

import importlib.util
import json
import os
import time
from datetime import UTC, datetime

import boto3
import pytest
import yaml
from double_market import control
from permissions import allowed

from tests.roles.playing import PROJECT

FILE = PROJECT / "roles/bill/library/run_bill.py"
_spec = importlib.util.spec_from_file_location("run_bill", FILE)
run_bill = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_bill)

MARKET = yaml.safe_load((PROJECT / "roles/spot_market/vars/main.yml").read_text())
RATES, TABLE = MARKET["__spot_market_rates"], MARKET["__spot_market_on_demand"]
P2 = "p2.16xlarge"
KIT = {"kit": "image-trainer"}
OURS = KIT | {"run": "trainer-1"}
EAST = {"region": "us-east-1", "instance_types": [P2], "on_demand_usd_per_hour": 14.4,
        "spot_usd_per_hour": [["-20d", 3.1], ["-9h", 1.8], ["-7h", 2.75], ["-90m", 1.5], ["-30m", 4.0]]}  # fmt: skip
WEST = {"region": "us-west-2", "instance_types": [P2], "on_demand_usd_per_hour": 15.0,
        "spot_usd_per_hour": [["-2d", 1.1], ["-1h", 1.3]]}  # fmt: skip


def instance(region="us-east-1", zone="a", tags=OURS, **more):
    return {"region": region, "zone": region + zone, "instance_type": P2, "market": "spot", "tags": tags} | more


def make(directory, run="trainer-1", is_check=False):
    params = {"run": run, "directory": str(directory), "rates": RATES, "on_demand_table": TABLE, "timeout_seconds": 60}
    return run_bill.look(params, datetime.now(UTC), is_check)


def double_bill():
    return {row["id"]: row for row in control(os.environ["AWS_ENDPOINT_URL"], "bill")}


def usd_of(bill, kind):
    return {row["id"]: row["usd"] for row in bill["rows"] if row["kind"] == kind}


def client(region="us-east-1"):
    return boto3.client("ec2", region_name=region)


def tags(kind, own=OURS):
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in own.items()]}]


LOSSES = [
    instance(launched="-10h", ended="-6h", taken_back=True), instance(zone="b", launched="-5h", ended="-3h"),
    instance(zone="b", launched="-3h", ended="-130m", taken_back=True),
    instance("us-west-2", launched="-2h"), instance(launched="-9h", tags=KIT | {"run": "other"}),
    instance(launched="-8h", ended="-7h", market="on_demand"),
]  # fmt: skip


def test_it_agrees_with_the_doubles_own_ledger_to_the_cent(aws, tmp_path):
    """Prices that change, two instances after losses, one of them within its first hour, one on demand."""
    with aws({"offers": [EAST, WEST], "instances": LOSSES}):
        bill, theirs = make(tmp_path), double_bill()
    mine = usd_of(bill, "instance")
    assert len(mine) == 5
    for one, usd in mine.items():
        assert usd == pytest.approx(theirs[one]["usd"], abs=0.005), theirs[one]
    by_hand = [3.1 + 2 * 1.8 + 2.75, 2 * 2.75, 0, 1.1 + 1.3, 14.4]
    assert sum(mine.values()) == pytest.approx(sum(by_hand), abs=0.01)
    free = [row["remark"] for row in bill["rows"] if row["usd"] == 0.0]
    assert free == ["taken back by AWS within the first hour: free"]
    hours = 4 + 2 + 50 / 60 + 1
    assert bill["on_demand_usd"] == pytest.approx(hours * 14.4 + 2 * 15.0, abs=0.05)


def copied(run):
    """A snapshot of us-east-1 and its copy in us-west-2, made for a run."""
    volume = client().create_volume(Size=150, AvailabilityZone="us-east-1a")["VolumeId"]
    source = client().create_snapshot(VolumeId=volume)["SnapshotId"]
    own = tags("snapshot", KIT | {"copied_for": run, "copied_from": "us-east-1"})
    return client("us-west-2").copy_snapshot(
        SourceRegion="us-east-1", SourceSnapshotId=source, TagSpecifications=own
    )["SnapshotId"]


def test_volumes_snapshots_and_copies_have_their_size_and_time(aws, tmp_path):
    started = time.monotonic()
    with aws({"offers": [EAST, WEST]}):
        copy = copied("trainer-1")
        volume = client().create_volume(Size=500, AvailabilityZone="us-east-1b", TagSpecifications=tags("volume"))
        snapshot = client().create_snapshot(VolumeId=volume["VolumeId"], TagSpecifications=tags("snapshot"))
        bill, theirs = make(tmp_path), double_bill()
    seconds = time.monotonic() - started  # the double looks at its clock later than the kit at its own
    rows = {(row["kind"], row["id"]): row for row in bill["rows"]}
    assert set(rows) == {("volume", volume["VolumeId"]), ("snapshot", snapshot["SnapshotId"]), ("snapshot", copy),
                         ("copy", copy)}  # fmt: skip
    assert rows["copy", copy]["usd"] == pytest.approx(150 * 0.02)
    for (kind, one), row in rows.items():
        assert row["size_gb"] == theirs[one]["size_gib"]
        if kind != "copy":
            assert row["hours"] * 3600 == pytest.approx(theirs[one]["seconds"], abs=2.5 + seconds)
            rate = RATES[f"{kind}_usd_per_gb_month"][row["region"]]
            assert row["usd"] == pytest.approx(row["size_gb"] * row["hours"] / 730 * rate)
    assert theirs[copy]["copied_from"] == "us-east-1"
    assert [row["id"] for row in bill["shared"]] == [copy], "what outlives the run is told, and is no leftover"
    assert copy not in {row["id"] for row in bill["alive"]}


def test_the_ledger_remembers_what_aws_forgets(aws, tmp_path):
    gone = instance(launched="-10h", ended="-6h")
    with aws({"offers": [EAST], "instances": [gone]}):
        client().create_volume(Size=500, AvailabilityZone="us-east-1b", TagSpecifications=tags("volume"))
        before = make(tmp_path)
    with aws({"offers": [EAST]}):  # a world that knows none of it
        after = make(tmp_path)
    assert usd_of(before, "instance") == usd_of(after, "instance")
    [volume] = [row for row in after["rows"] if row["kind"] == "volume"]
    assert volume["until"] == before["at"]
    assert "last seen" in volume["remark"]
    assert after["alive"] == []
    assert after["total_usd"] == pytest.approx(before["total_usd"], abs=0.001)


def test_prices_are_kept_and_asked_once(aws, tmp_path, calls):
    with aws({"offers": [EAST], "instances": [instance(launched="-10h", ended="-6h")]}):
        first = make(tmp_path)
        asked = len([call for call in calls() if call["action"] in ("DescribeSpotPriceHistory", "GetProducts")])
        second = make(tmp_path)
    assert len([call for call in calls() if call["action"] in ("DescribeSpotPriceHistory", "GetProducts")]) == asked
    assert first["total_usd"] == second["total_usd"] > 0


def test_what_is_alive_is_named_in_every_region(aws, tmp_path):
    request = instance("us-west-2", market="spot", request="persistent", request_tags=OURS, tags={})
    scenario = {"offers": [EAST, WEST], "instances": [request, instance(state="stopped", market="on_demand")]}
    with aws(scenario):
        address = client("us-west-2").allocate_address(Domain="vpc", TagSpecifications=tags("elastic-ip"))
        group = client().create_security_group(GroupName="g", Description="d", TagSpecifications=tags("security-group"))
        client().create_key_pair(KeyName="k", TagSpecifications=tags("key-pair"))
        client().create_key_pair(KeyName="l", TagSpecifications=tags("key-pair", {"run": "trainer-1"}))
        boto3.client("iam", region_name="us-east-1").create_instance_profile(
            InstanceProfileName="trainer-trainer-1", Tags=tags("")[0]["Tags"]
        )
        bill = make(tmp_path)
    kinds = sorted((row["kind"], row["region"], row["state"]) for row in bill["alive"] if row["kind"] != "address")
    assert kinds == [("instance", "us-east-1", "stopped"), ("instance", "us-west-2", "running"),
                     ("spot_request", "us-west-2", "active")]  # fmt: skip
    assert address["AllocationId"] in {row["id"] for row in bill["alive"]}
    left = {(row["kind"], row["id"]) for row in bill["left"]}
    assert {kind for kind, _ in left} == {"key_pair", "security_group", "instance_profile"}
    assert ("security_group", group["GroupId"]) in left
    assert [row["kind"] for row in bill["strangers"]] == ["key_pair"]


@pytest.mark.parametrize(("code", "is_unknown"), [("InternalError", True), ("UnauthorizedOperation", False)])
def test_a_region_that_does_not_answer_ends_nothing(aws, tmp_path, monkeypatch, code, is_unknown):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    running = {"offers": [EAST, WEST], "instances": [instance()]}
    fault = {"region": "us-west-2", "action": "Describe*", "codes": [code], "forever": True}
    with aws(running | {"faults": [fault]}):
        assert bool(make(tmp_path)["unknown"]) == is_unknown
    with aws({"offers": [EAST, WEST], "faults": [fault | {"region": "us-east-1", "action": "DescribeInstances"}]}):
        bill = make(tmp_path)
    assert bill["unknown"][0].startswith("us-east-1"), "an instance was seen there"
    [row] = [row for row in bill["rows"] if row["kind"] == "instance"]
    assert row["until"] is None


@pytest.mark.parametrize("action", ["DescribeAddresses", "DescribeInstances"])
def test_a_permission_that_is_missing_everywhere_proves_nothing(aws, tmp_path, action):
    fault = {"action": action, "codes": ["UnauthorizedOperation"], "forever": True}
    with aws({"offers": [EAST, WEST], "instances": [instance()], "faults": [fault]}):
        bill = make(tmp_path)
    assert sorted(reason.split(":")[0] for reason in bill["unknown"]) == ["us-east-1", "us-west-2"]


def test_the_request_of_a_machine_tells_when_it_ended(aws, tmp_path):
    """AWS gives back what it calls the end of the instance, and forgets the instance itself within an hour."""
    one = instance(launched="-10h", request_tags=OURS)
    with aws({"offers": [EAST], "instances": [one | {"ended": "-6h"}]}):
        [request] = [row for row in run_bill.scan_region(boto3.client, "us-east-1", "trainer-1")["costs"]
                     if row["kind"] == "spot_request"]  # fmt: skip
        before = make(tmp_path)
    [row] = before["rows"][:1]
    assert (request["instance_id"], request["instance_interrupted"]) == (row["id"], False)
    assert request["instance_ended"] == pytest.approx(row["until"], abs=2)


def test_an_unknown_price_is_never_nothing(aws, tmp_path):
    offer = {"region": "us-east-1", "instance_types": ["m9.odd"], "zones": ["us-east-1a"]}
    kind = {"m9.odd": {"vcpus": 2, "memory_mib": 4096}}
    one = instance() | {"instance_type": "m9.odd", "launched": "-2h"}
    with aws({"offers": [offer], "instance_types": kind, "instances": [one]}):
        bill = make(tmp_path)
    [row] = [row for row in bill["rows"] if row["kind"] == "instance"]
    assert (row["usd"], row["remark"]) == (None, "price unknown: not in the sum")
    assert "Sum: at least $" in run_bill.render(bill)


def test_check_mode_writes_nothing(aws, tmp_path):
    with aws({"offers": [EAST], "instances": [instance()]}):
        assert make(tmp_path, is_check=True)["total_usd"] > 0
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize("run", ["", " "])
def test_without_a_name_nobody_is_looked_for(run, aws, tmp_path, calls):
    with aws({"offers": [EAST]}), pytest.raises(ValueError, match="run must be"):
        make(tmp_path, run=run)
    assert not (tmp_path / "calls.jsonl").exists()


def test_a_damaged_ledger_is_named(aws, tmp_path):
    (tmp_path / "ledger.json").write_text("{")
    with aws({"offers": [EAST]}), pytest.raises(ValueError, match=r"ledger.json must be a ledger"):
        make(tmp_path)


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_killed_while_it_writes_the_ledger_is_whole(aws, tmp_path, monkeypatch, at):
    def kill(*_):
        raise Killed

    with aws({"offers": [EAST], "instances": [instance(launched="-3h", ended="-1h")]}):
        make(tmp_path)
        before = (tmp_path / "ledger.json").read_text()
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(os, at, kill)
            make(tmp_path)
        assert (tmp_path / "ledger.json").read_text() == before
        make(tmp_path)
    assert json.loads(before)["rows"].keys() == ledger(tmp_path).keys()


def ledger(directory):
    return json.loads((directory / "ledger.json").read_text())["rows"]


def test_what_one_look_could_not_see_another_adds(aws, tmp_path):
    sides = [
        {"offers": [EAST, WEST], "instances": [instance(), instance("us-west-2")],
         "faults": [{"region": hidden, "action": "Describe*Instances", "codes": ["InternalError"], "forever": True}]}
        for hidden in ("us-east-1", "us-west-2")
    ]  # fmt: skip
    for side in sides:
        with aws(side):
            make(tmp_path)
    regions = [row["region"] for row in ledger(tmp_path).values() if row["kind"] == "instance"]
    assert sorted(regions) == ["us-east-1", "us-west-2"]


def test_the_policy_allows_what_it_asks_and_nothing_else(aws, tmp_path, calls):
    with aws({"offers": [EAST, WEST], "instances": [instance(launched="-1h")]}, "bill"):
        assert make(tmp_path)["unknown"] == []
    assert {action for call in calls() for action in call["iam"]} == allowed("bill")
