"""Launches against the double: one instance, whatever AWS answers and whenever the controller dies."""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest
from ansible.module_utils import launch_walk
from ansible.module_utils.launch_errors import ERRORS
from ansible.module_utils.launch_place import read_place
from ansible.module_utils.launch_walk import Stopped
from launches import HOME, IMAGE_PARAMETER, T3, arguments, ec2, launch, market, offer

PROJECT = Path(__file__).parents[2]
# What calls answer; the others are reasons of instances that ended.
CALLS = {code: row.step for code, row in ERRORS.items() if not code.startswith(("Server.", "Client."))}
NOT_SENT = {"NoAnswer", "NoCredentials", "InvalidIamInstanceProfile"}


def codes(*steps):
    return [code for code, step in CALLS.items() if step in steps and code not in NOT_SENT]


def fault(*words, **more):
    return {"action": "RunInstances", "codes": list(words)} | more


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(launch_walk, "FIRST_PAUSE_SECONDS", 0.02)


def alive():
    wanted = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    rows = ec2().describe_instances(Filters=wanted)["Reservations"]
    return [row["InstanceId"] for group in rows for row in group["Instances"]]


def launches(calls):
    return [call for call in calls() if call["action"] == "RunInstances"]


def test_what_is_launched(aws, calls, tmp_path):
    with aws(market()):
        facts, tried = launch(tmp_path, offer(), max_price_usd=2.5)
        [row] = ec2().describe_instances()["Reservations"][0]["Instances"]
        [volume] = ec2().describe_volumes()["Volumes"]
        [request] = ec2().describe_spot_instance_requests()["SpotInstanceRequests"]
        data = ec2().describe_instance_attribute(InstanceId=row["InstanceId"], Attribute="userData")
        ends = ec2().describe_instance_attribute(
            InstanceId=row["InstanceId"], Attribute="instanceInitiatedShutdownBehavior"
        )
    assert tried == []
    assert facts | {"launched_at": 0} == {
        "id": row["InstanceId"], "region": HOME, "zone": f"{HOME}a", "instance_type": T3, "market": "spot",
        "state": "running", "image_id": f"ami-{HOME}", "address": row["PublicIpAddress"], "launched_at": 0,
        "private_address": row["PrivateIpAddress"], "subnet_id": row["SubnetId"], "vpc_id": row["VpcId"],
    }  # fmt: skip
    assert time.time() - facts["launched_at"] < 60
    tags = {"kit": "image-trainer", "run": "r1", "Name": "trainer-1"}
    for thing in (row, volume, request):
        assert {tag["Key"]: tag["Value"] for tag in thing["Tags"]} == tags
    assert (volume["Size"], volume["VolumeType"], volume["Encrypted"]) == (40, "gp3", True)
    assert volume["Attachments"][0]["DeleteOnTermination"]
    assert (request["Type"], request["State"]) == ("one-time", "active")
    assert ends["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    assert "BEGIN OPENSSH PRIVATE KEY" in base64.b64decode(data["UserData"]["Value"]).decode()
    [call] = launches(calls)
    parameters = call["parameters"].items()
    assert {key: value for key, value in parameters if key.startswith(("Metadata", "InstanceMarket"))} == {
        "MetadataOptions.HttpEndpoint": "enabled", "MetadataOptions.HttpTokens": "required",
        "MetadataOptions.HttpPutResponseHopLimit": "1", "InstanceMarketOptions.MarketType": "spot",
        "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
        "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate",
        "InstanceMarketOptions.SpotOptions.MaxPrice": "2.500000",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "image"),
    [
        ({"image_ids": {HOME: "ami-own"}}, "ami-own"),
        ({"image_ids": {"eu-west-1": "ami-own"}}, "ami-newest"),
        ({"image_tags": {"kit_version": "1"}}, "ami-older"),
        ({"image_tags": {"kit_version": "3"}}, f"ami-{HOME}"),
        ({"profiles": {}}, f"ami-{HOME}"),
    ],
)
def test_an_image_of_ones_own_counts_most_then_the_newest_baked_one(aws, wanted, image):
    profile = {"architecture": "x86_64", "mxnet_wheel": "mxnet-cu112", "driver_branch": 535}
    tags = {"kit": "image-trainer", "architecture": "x86_64", "mxnet_wheel": "mxnet-cu112", "driver_branch": "535"}
    given = {"region": HOME, "public": False}
    images = [
        given | {"id": "ami-own", "name": "own"},
        given | {"id": "ami-older", "name": "older", "created": "-2d", "tags": tags | {"kit_version": "1"}},
        given | {"id": "ami-newest", "name": "newest", "created": "-1d", "tags": tags | {"kit_version": "2"}},
        given | {"id": "ami-kepler", "name": "kepler", "created": "-1h", "tags": tags | {"driver_branch": "470"}},
    ]
    place = {
        "region": HOME, "offers": [offer()], "subnet_ids": {}, "image_ids": {}, "image_parameter": IMAGE_PARAMETER,
        "profiles": {T3: profile}, "image_tags": {}, "root_gb": 40,
    }  # fmt: skip
    with aws(market(images=market()["images"] + images)):
        found = read_place(ec2(), boto3.client("ssm", region_name=HOME), place | wanted)
    assert found["images"][T3]["id"] == image


def test_on_demand_in_any_zone_that_has_the_type(aws, tmp_path):
    rare = {"region": HOME, "zones": [f"{HOME}b", f"{HOME}c"], "instance_types": [T3], "on_demand_usd_per_hour": 14.4}
    full = fault("InsufficientInstanceCapacity", zone=f"{HOME}b", market="on_demand", forever=True)
    with aws(market(offers=[rare], faults=[full])):
        facts, tried = launch(tmp_path, offer(zone=None, market="on_demand"))
        assert ec2().describe_spot_instance_requests()["SpotInstanceRequests"] == []
    assert (facts["zone"], facts["market"]) == (f"{HOME}c", "on_demand")
    assert [row["zone"] for row in tried] == [f"{HOME}b"]


def test_every_code_that_means_the_next_zone_does(aws, calls, tmp_path):
    words = [*codes("zone"), "SomethingOfTomorrow"]
    with aws(market(faults=[fault(*words)])):
        facts, tried = launch(tmp_path, *[offer(zone=f"{HOME}{letter}") for letter in "abc" * len(words)])
    assert [row["code"] for row in tried] == words
    assert facts["zone"] == f"{HOME}{'abc'[len(words) % 3]}"
    assert len({call["parameters"]["ClientToken"] for call in launches(calls)}) == len(words) + 1


def test_every_code_that_means_the_next_region_leaves_out_the_type_and_market(aws, tmp_path):
    words = codes("region")
    offers = [offer(), offer(zone=f"{HOME}b"), offer(name="t3.small"), offer(zone=f"{HOME}c")]
    with aws(market(faults=[fault(*words, instance_type=T3)])):
        for word in words:
            facts, tried = launch(tmp_path, *offers)
            assert [(row["code"], row["zone"]) for row in tried] == [(word, f"{HOME}a")]
            assert facts["instance_type"] == "t3.small"
            (tmp_path / "launch.json").unlink()


def test_quota_0_is_told_and_the_on_demand_offer_taken(aws, tmp_path):
    with aws(market(quotas=[{"market": "spot", "family": "standard", "vcpus": 0}])):
        facts, tried = launch(tmp_path, offer(), offer(zone=f"{HOME}b"), offer(market="on_demand", price=14.4))
    assert [(row["code"], row["step"]) for row in tried] == [("MaxSpotInstanceCountExceeded", "region")]
    assert "Service Quotas" in tried[0]["meaning"]
    assert facts["market"] == "on_demand"


@pytest.mark.parametrize("word", [*codes("wait", "again"), "refused", "lost"])
def test_what_passes_is_asked_again_with_the_same_token(aws, calls, tmp_path, word):
    with aws(market(faults=[fault(word, word)])):
        facts, tried = launch(tmp_path, offer())
        assert alive() == [facts["id"]]
    assert tried == []
    assert len({call["parameters"]["ClientToken"] for call in launches(calls)}) == 1
    assert len(launches(calls)) == 3


def test_a_new_instance_profile_is_waited_for(aws, tmp_path):
    text = "Value (trainer-r1) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
    with aws(market(faults=[fault("InvalidParameterValue", "InvalidParameterValue", message=text)])):
        facts, tried = launch(tmp_path, offer())
    assert facts and tried == []


def test_throttling_that_does_not_end_makes_the_next_zone_the_better_try(aws, monkeypatch, tmp_path):
    monkeypatch.setattr(launch_walk, "PATIENCE_SECONDS", 0.1)
    with aws(market(faults=[fault("RequestLimitExceeded", zone=f"{HOME}a", forever=True)])):
        facts, tried = launch(tmp_path, offer(), offer(zone=f"{HOME}b"))
    assert facts["zone"] == f"{HOME}b"
    assert [row["code"] for row in tried] == ["RequestLimitExceeded"]


@pytest.mark.parametrize("word", codes("again"))
def test_while_it_is_not_known_whether_it_launched_no_other_offer_is_taken(aws, calls, monkeypatch, tmp_path, word):
    monkeypatch.setattr(launch_walk, "PATIENCE_SECONDS", 0.05)
    with aws(market(faults=[fault(*[word] * 9)])):
        with pytest.raises(Stopped, match="not known whether it launched"):
            launch(tmp_path, offer(), offer(zone=f"{HOME}b"))
        monkeypatch.setattr(launch_walk, "PATIENCE_SECONDS", 60)
        facts, _ = launch(tmp_path, offer(zone=f"{HOME}b"))
        assert alive() == [facts["id"]]
    assert facts["zone"] == f"{HOME}a"
    assert len({call["parameters"]["ClientToken"] for call in launches(calls)}) == 1


@pytest.mark.parametrize("word", codes("stop"))
def test_what_no_offer_can_help_stops(aws, calls, tmp_path, word):
    with aws(market(faults=[fault(word)])):
        with pytest.raises(Stopped, match=word):
            launch(tmp_path, offer(), offer(zone=f"{HOME}b"))
        assert alive() == []
    assert len(launches(calls)) == 1


def test_credentials_that_expire_half_way_leave_nothing_that_is_not_found(aws, tmp_path):
    faults = [fault("InsufficientInstanceCapacity", "ok"), {"action": "DescribeInstances", "codes": ["ExpiredToken"]}]
    offers = [offer(), offer(zone=f"{HOME}b")]
    with aws(market(faults=faults)):
        with pytest.raises(Exception, match="ExpiredToken"):
            launch(tmp_path, *offers)
        [there] = alive()
        facts, _ = launch(tmp_path, *offers)
        assert (facts["id"], alive()) == (there, [there])


def test_an_instance_that_is_taken_back_while_it_starts_is_followed_by_the_next_offer(aws, tmp_path):
    faults = [{"action": "DescribeInstances", "codes": ["vanish"]}]
    with aws(market(faults=faults, timing=[{"pending": 1}])):
        facts, tried = launch(tmp_path, offer(), offer(zone=f"{HOME}b"))
        assert alive() == [facts["id"]]
    assert [row["code"] for row in tried] == ["Server.SpotInstanceTermination"]
    assert facts["zone"] == f"{HOME}b"


def test_ids_and_tags_that_are_seen_late_are_waited_for(aws, tmp_path):
    with aws(market(timing=[{"ids": 2, "tags": 3, "pending": 1}])):
        facts, _ = launch(tmp_path, offer())
        assert facts["state"] == "running"


def test_its_public_address_is_waited_for(aws, tmp_path):
    """The private one is there at once, and from outside it leads nowhere."""
    with aws(market(timing=[{"addresses": 2}])):
        facts, _ = launch(tmp_path, offer())
        [row] = ec2().describe_instances(InstanceIds=[facts["id"]])["Reservations"][0]["Instances"]
        assert facts["address"] == row["PublicIpAddress"] != facts["private_address"]


KILLED = """
import json, sys
import role_modules
from ansible.module_utils.launch_here import launch_here
launch_here(json.loads(sys.argv[1]))
"""


def start(options):
    command = [sys.executable, "-c", KILLED, json.dumps(options)]
    path = f"{PROJECT}:{PROJECT}/tests"
    return subprocess.Popen(command, cwd=PROJECT, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL)


def wait_for_launch(process, calls):
    """Until the double has carried the call out, or has refused to answer it."""
    deadline = time.monotonic() + 60
    while not launches(calls):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("word", "there"), [("held", 1), ("hang", 0)])
@pytest.mark.parametrize("ids", [0, 2])
def test_a_controller_killed_before_the_answer_finds_the_same_instance(aws, calls, tmp_path, word, there, ids):
    """Whether the call was carried out or not, seen or not yet; and though another offer is now the best."""
    with aws(market(faults=[fault(word)], timing=[{"ids": ids, "tags": ids}])):
        killed = start(arguments(tmp_path, offer()))
        wait_for_launch(killed, calls)
        killed.kill()
        killed.wait()
        facts, _ = launch(tmp_path, offer(zone=f"{HOME}c"), offer())
        time.sleep(ids)
        assert alive() == [facts["id"]]
    assert facts["zone"] == f"{HOME}a"


def test_what_was_lost_is_followed_by_a_new_launch(aws, calls, tmp_path):
    """At once, when AWS still remembers the token, and long after."""
    with aws(market()):
        first, _ = launch(tmp_path, offer())
        ec2().terminate_instances(InstanceIds=[first["id"]])
        second, tried = launch(tmp_path, offer())
        assert alive() == [second["id"]]
        ec2().terminate_instances(InstanceIds=[second["id"]])
        third, _ = launch(tmp_path, offer(), shown_seconds=0)
        assert alive() == [third["id"]]
    assert tried == []
    assert [call["code"] for call in launches(calls)] == [None, "IdempotentInstanceTerminated", None, None]


def test_a_lost_journal_launches_no_second_instance(aws, tmp_path):
    with aws(market(timing=[{"ids": 3}])):
        first, _ = launch(tmp_path, offer())
        (tmp_path / "launch.json").unlink()
        second, _ = launch(tmp_path, offer())
        assert (second["id"], alive()) == (first["id"], [first["id"]])


def test_a_lost_journal_and_a_lost_instance_get_another_token(aws, calls, tmp_path):
    with aws(market()):
        first, _ = launch(tmp_path, offer())
        ec2().terminate_instances(InstanceIds=[first["id"]])
        (tmp_path / "launch.json").unlink()
        second, tried = launch(tmp_path, offer())
        assert alive() == [second["id"]]
    assert [row["code"] for row in tried] == ["IdempotentInstanceTerminated"]


@pytest.mark.parametrize("lost", [False, True])
def test_a_token_that_was_used_with_other_parameters(aws, tmp_path, lost):
    """The run's keys were made anew: the instance of the token is taken while it lives, another launched else."""
    with aws(market(timing=[{"ids": 2}])):
        first, _ = launch(tmp_path, offer())
        for name in ("host_ed25519", "host_ed25519.pub"):
            (tmp_path / name).unlink()
        if lost:
            ec2().terminate_instances(InstanceIds=[first["id"]])
        open_entry(tmp_path)
        second, _ = launch(tmp_path, offer(), shown_seconds=4)
        time.sleep(2)
        assert alive() == [second["id"]]
    assert (first["id"] == second["id"]) is not lost


def open_entry(folder):
    """As if it had been asked for just now and is not shown yet."""
    path = folder / "launch.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"at": time.time()}))


def test_two_controllers_at_once_launch_one_instance(aws, tmp_path):
    """Though each of them takes another offer for the best."""
    with aws(market(latency=[{"action": "RunInstances", "seconds": 5}])):
        both = [start(arguments(tmp_path, offer(zone=f"{HOME}{letter}"))) for letter in "ab"]
        assert [process.wait(60) for process in both] == [0, 0]
        assert len(alive()) == 1


def test_the_time_limit_ends_the_walk(aws, calls, tmp_path):
    with aws(market(faults=[fault("InsufficientInstanceCapacity", forever=True)])):
        facts, tried = launch(tmp_path, offer(), deadline=time.time() - 1)
    assert (facts, tried, launches(calls)) == ({}, [], [])


def test_a_damaged_journal_is_named(aws, tmp_path):
    (tmp_path / "launch.json").write_text("{")
    with aws(market()), pytest.raises(ValueError, match=f"journal of launches {tmp_path}/launch.json"):
        launch(tmp_path, offer())


def test_only_its_owner_reads_the_journal_and_no_key_is_in_it(aws, tmp_path):
    with aws(market()):
        launch(tmp_path, offer())
    path = tmp_path / "launch.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in path.read_text()
