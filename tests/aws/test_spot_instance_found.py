"""What is found of a run, kept and ended: that and nothing else."""

import time

import boto3
import pytest
from ansible.module_utils import launch_walk, run_end
from ansible.module_utils.launch_journal import read_journal, wait_until_shown
from ansible.module_utils.launch_walk import Stopped
from ansible.module_utils.run_end import end
from ansible.module_utils.run_keep import keep
from ansible.module_utils.run_look import look
from ansible.module_utils.run_things import look_for_things
from ansible.module_utils.spot_survey import client_maker
from botocore.exceptions import ClientError
from double_market import launch as launch_by_hand
from launches import HOME, T3, ec2, launch, market, offer

TAGS = {"kit": "image-trainer", "run": "r1"}
DENIED = {"region": "eu-west-1", "codes": ["UnauthorizedOperation"], "forever": True}


def instance(tags=None, zone=f"{HOME}a", **more):
    tags = TAGS if tags is None else tags
    return {"region": zone[:-1], "zone": zone, "instance_type": T3, "tags": tags} | more


def persistent(tags=None, **more):
    return instance(tags, market="spot", request="persistent", request_tags=TAGS, **more)


def client():
    return client_maker(boto3.session.Session())


def states(region=HOME):
    rows = [row for group in ec2(region).describe_instances()["Reservations"] for row in group["Instances"]]
    return sorted(row["State"]["Name"] for row in rows)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_run_s_instance_is_found_in_whatever_region(aws, state):
    with aws(market(instances=[instance(zone="eu-west-1b", state=state)])):
        [row] = look("r1", {})["instances"]
    assert (row["region"], row["zone"], row["state"]) == ("eu-west-1", "eu-west-1b", state)


def test_what_is_another_s_or_over_is_not_found(aws):
    others = [instance({"kit": "image-trainer", "run": "r10"}), instance({"run": "r1"}), instance({})]
    with aws(market(instances=[*others, instance()])):
        [row] = look("r1", {})["instances"]
        ec2().terminate_instances(InstanceIds=[row["id"]])
        assert look("r1", {})["instances"] == []


def test_one_whose_tags_are_not_seen_yet_is_found_by_its_token(aws, tmp_path):
    with aws(market(timing=[{"tags": "forever"}])):
        made, _ = launch(tmp_path, offer(market="on_demand"))
        assert look("r1", {})["instances"] == []
        found = look("r1", read_journal(tmp_path / "launch.json"))["instances"]
    assert [row["id"] for row in found] == [made["id"]]


def test_one_without_tags_is_found_by_its_request(aws):
    with aws(market(instances=[persistent(tags={})])):
        found = look("r1", {})
    assert len(found["instances"]) == 1
    assert [row["kind"] for row in found["requests"]] == ["persistent"]


def test_regions_that_the_account_may_not_use_are_passed_over_and_told(aws, calls):
    regions = {"us-east-1": {}, HOME: {}, "eu-west-1": {}, "ap-east-1": {"opt_in": "not-opted-in"}}
    with aws(market(regions=regions, faults=[DENIED], instances=[instance()])):
        found = look("r1", {})
    assert len(found["instances"]) == 1
    assert found["skipped"] == ["eu-west-1: UnauthorizedOperation: You are not authorized to perform this operation."]
    assert "ap-east-1" not in {call["region"] for call in calls()}


@pytest.mark.parametrize(
    ("faults", "journal", "words"),
    [
        ([DENIED], {"region": "eu-west-1", "token": "t"}, "eu-west-1: UnauthorizedOperation"),
        ([DENIED | {"region": "*", "action": "DescribeInstances"}], {}, "us-east-1: UnauthorizedOperation"),
        ([DENIED | {"codes": ["ExpiredToken"]}], {}, "eu-west-1: ExpiredToken"),
        ([DENIED | {"region": "*", "codes": ["AuthFailure"]}], {}, "AuthFailure"),
    ],
)
def test_when_nobody_can_tell_what_is_there_that_is_an_error(aws, faults, journal, words):
    with aws(market(faults=faults)), pytest.raises(OSError, match=words):
        look("r1", journal)


def test_throttled_looks_are_repeated(aws):
    faults = [{"action": "DescribeInstances", "region": HOME, "codes": ["RequestLimitExceeded"]}]
    with aws(market(faults=faults, instances=[instance()], page_sizes={"DescribeInstances": 1}, empty_pages=True)):
        assert len(look("r1", {})["instances"]) == 1


@pytest.mark.parametrize("call", [look, lambda run, journal: look_for_things(run)])
def test_an_empty_name_is_an_error(aws, call):
    with aws(market()), pytest.raises(OSError, match="a run's name must not be empty"):
        call("", {})


def test_a_persistent_request_of_an_older_tool_launches_nothing_more(aws):
    with aws(market(instances=[persistent()])):
        found = look("r1", {})
        kept = keep(client(), "r1", {}, found["instances"][0], found["requests"])
        assert look("r1", {})["requests"] == []
        ec2().terminate_instances(InstanceIds=[kept["id"]])
        assert states() == ["terminated"]


def test_an_open_request_that_launches_before_it_is_cancelled_gives_the_instance(aws):
    specification = {"ImageId": f"ami-{HOME}", "InstanceType": T3, "Placement": {"AvailabilityZone": f"{HOME}a"}}
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    with aws(market()):
        asked = ec2().request_spot_instances(
            LaunchSpecification=specification,
            TagSpecifications=[{"ResourceType": "spot-instances-request", "Tags": tags}],
        )
        request_id = asked["SpotInstanceRequests"][0]["SpotInstanceRequestId"]
        was_open = {"id": request_id, "region": HOME, "kind": "one-time", "state": "open"}
        kept = keep(client(), "r1", {}, {}, [was_open])
        assert (kept["state"], states()) == ("running", ["running"])
        assert len(end(client(), "r1", {}, 1, dry=False)["instances"]) == 1


def test_an_open_request_is_cancelled_and_launches_nothing(aws):
    asked = {"LaunchSpecification": {"ImageId": f"ami-{HOME}", "InstanceType": T3}}
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    with aws(market(timing=[{"open_request": "forever"}])):
        tagged = [{"ResourceType": "spot-instances-request", "Tags": tags}]
        ec2().request_spot_instances(TagSpecifications=tagged, **asked)
        found = look("r1", {})
        assert keep(client(), "r1", {}, {}, found["requests"]) == {}
        [row] = ec2().describe_spot_instance_requests()["SpotInstanceRequests"]
    assert (row["State"], row["Status"]["Code"]) == ("cancelled", "canceled-before-fulfillment")


def test_the_request_of_a_stopped_instance_is_cancelled_once_that_is_started(aws):
    with aws(market(instances=[persistent()])):
        [running] = look("r1", {})["instances"]
        ec2().stop_instances(InstanceIds=[running["id"]])
        found = look("r1", {})
        assert [row["state"] for row in found["requests"]] == ["disabled"]
        kept = keep(client(), "r1", {}, found["instances"][0], found["requests"])
        assert (kept["id"], kept["state"]) == (running["id"], "running")
        assert look("r1", {})["requests"] == []


def test_a_stopped_instance_is_started(aws):
    with aws(market(instances=[instance(state="stopped")])):
        [row] = look("r1", {})["instances"]
        assert keep(client(), "r1", {}, row, [])["state"] == "running"


def test_an_instance_that_vanishes_meanwhile_is_an_error_in_words(aws):
    faults = [{"action": "DescribeInstances", "region": HOME, "codes": ["ok", "vanish"]}]
    with aws(market(instances=[instance()], faults=faults)):
        [row] = look("r1", {})["instances"]
        with pytest.raises(Stopped, match="Spot instance termination.*run again"):
            keep(client(), "r1", {}, row, [])


def test_ending_takes_exactly_the_run_s(aws):
    others = [instance({"kit": "image-trainer", "run": "r2"}), instance({"run": "r1"}), instance({})]
    with aws(market(instances=[*others, persistent()], timing=[{"shutting_down": 1}])):
        assert len(end(client(), "r1", {}, 1, dry=True)["instances"]) == 1
        assert states() == ["running"] * 4
        ended = end(client(), "r1", {}, 1, dry=False)
        assert (len(ended["instances"]), len(ended["requests"])) == (1, 1)
        assert states() == ["running"] * 3 + ["terminated"]
        assert end(client(), "r1", {}, 1, dry=False) == {"instances": [], "requests": []}


def test_one_without_tags_that_may_not_be_ended_is_named_with_what_to_do(aws):
    with aws(market(instances=[persistent(tags={})]), "launch"):
        with pytest.raises(OSError, match=f"i-.* in {HOME} carries no tag of the kit.*End it in AWS's console"):
            end(client(), "r1", {}, 1, dry=False)
        assert states() == ["running"]


def test_one_with_tags_that_may_not_be_ended_is_told_in_aws_s_words(aws):
    faults = [{"action": "TerminateInstances", "codes": ["UnauthorizedOperation"], "forever": True}]
    with aws(market(instances=[instance()], faults=faults)), pytest.raises(ClientError, match="UnauthorizedOperation"):
        end(client(), "r1", {}, 1, dry=False)


def test_more_instances_than_were_said_are_listed_and_none_is_ended(aws):
    with aws(market(instances=[instance(), instance(zone="eu-west-1a")])):
        with pytest.raises(ValueError, match=r"would end 2 instances, and spot_instance_retire_count is 1: i-.*, i-"):
            end(client(), "r1", {}, 1, dry=False)
        assert states() + states("eu-west-1") == ["running"] * 2
        end(client(), "r1", {}, 2, dry=False)
        assert states() + states("eu-west-1") == ["terminated"] * 2


def test_ending_waits_for_a_launch_that_is_not_shown_yet(aws):
    entry = {"region": HOME, "token": "t", "at": time.time()}
    with aws(market(timing=[{"ids": 2}])):
        launch_by_hand(ec2(), zone=f"{HOME}a", name=T3, token="t", ImageId=f"ami-{HOME}")
        wait_until_shown(client(), entry, 60)
        assert len(end(client(), "r1", entry, 1, dry=False)["instances"]) == 1


def test_an_instance_that_does_not_end_is_named(aws, monkeypatch):
    monkeypatch.setattr(run_end, "GONE_SECONDS", 1)
    with aws(market(instances=[instance()], timing=[{"shutting_down": "forever"}])), pytest.raises(
        OSError, match=f"i-.* in {HOME} is still shutting-down after 1 s"
    ):
        end(client(), "r1", {}, 1, dry=False)


def test_an_instance_that_does_not_start_is_named(aws, monkeypatch, tmp_path):
    monkeypatch.setattr(launch_walk, "START_SECONDS", 1)
    with aws(market(timing=[{"pending": "forever"}])), pytest.raises(Stopped, match="after 1 s: it is pending"):
        launch(tmp_path, offer())


def test_a_gateway_that_is_not_attached_yet_is_found(aws):
    """A launch that is killed in between leaves one."""
    tags = [{"Key": key, "Value": value} for key, value in TAGS.items()]
    with aws(market()):
        made = ec2().create_internet_gateway(TagSpecifications=[{"ResourceType": "internet-gateway", "Tags": tags}])
        found = look_for_things("r1")["gateways"]
    assert [(row["id"], row["vpc_id"]) for row in found] == [(made["InternetGateway"]["InternetGatewayId"], "")]
