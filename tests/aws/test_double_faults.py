"""What goes wrong in the double when a scenario says so; the log; the command line."""

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from double_market import BASE, TAGS, alive, change, double, find, launch

from tests.fakes.aws.clients import client, code_of
from tests.fakes.aws.scenario import Scenario, parse_seconds, read_scenario
from tests.fakes.aws.server import running

ROOT = Path(__file__).parents[2]


def fault(*codes, **options):
    return {"codes": list(codes)} | options


def codes(call, count, **options):
    return [code_of(call, **options) for _ in range(count)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([fault("InternalError", "ok", "Unavailable")], ["InternalError", "", "Unavailable", ""]),
        ([fault("RequestExpired", after=2, forever=True)], ["", "", "RequestExpired", "RequestExpired"]),
        ([fault("A", "ok", forever=True)], ["A", "", "A", ""]),
        ([fault("A", region="eu-*")], ["", "", "", ""]),
        ([fault("A", action="ec2:Describe*"), fault("B", after=1)], ["A", "B", "", ""]),
    ],
)
def test_faults_come_in_sequence(rows, expected):
    with double(faults=rows) as endpoint:
        assert codes(client(endpoint).describe_volumes, 4) == expected


def test_faults_by_zone_type_and_market():
    row = fault("InsufficientInstanceCapacity", zone="us-east-1a", market="spot", instance_type="p2.*", forever=True)
    with double(faults=[row | {"action": "RunInstances"}]) as endpoint:
        ec2 = client(endpoint)
        assert code_of(launch, ec2) == "InsufficientInstanceCapacity"
        assert code_of(launch, ec2, zone="us-east-1b") == ""
        assert code_of(launch, ec2, spot=False) == ""
        assert code_of(launch, ec2, name="t3.micro") == ""


def test_a_message_of_its_own_in_every_protocol():
    with double(faults=[fault("AccessDenied", message="not you", forever=True)]) as endpoint:
        calls = [
            client(endpoint).describe_volumes,
            client(endpoint, "sts").get_caller_identity,
            client(endpoint, "s3").list_buckets,
            client(endpoint, "kms").list_keys,
        ]
        for call in calls:
            with pytest.raises(Exception, match="AccessDenied.*not you"):
                call()


def test_a_lost_answer_is_found_by_its_token():
    with double(faults=[fault("lost", action="RunInstances")]) as endpoint:
        ec2 = client(endpoint)
        with pytest.raises(ConnectionClosedError):
            launch(ec2, token="t1")
        [there] = alive(ec2)
        assert launch(ec2, token="t1")["InstanceId"] == there


def test_refused_does_nothing_and_boto_tries_again():
    with double(faults=[fault("refused", action="RunInstances")]) as endpoint:
        made = launch(client(endpoint, attempts=2))["InstanceId"]
        assert alive(client(endpoint)) == [made]


@pytest.mark.parametrize(("word", "count"), [("held", 1), ("hang", 0)])
def test_answers_that_never_come(word, count):
    with double(faults=[fault(word, action="RunInstances")]) as endpoint:
        with pytest.raises(ReadTimeoutError):
            launch(client(endpoint, timeout=1))
        assert len(alive(client(endpoint))) == count


def test_an_instance_vanishes_just_before_a_call():
    with double(faults=[fault("vanish", action="AttachVolume")]) as endpoint:
        ec2 = client(endpoint)
        instance = launch(ec2)["InstanceId"]
        volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
        code = code_of(ec2.attach_volume, VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
        assert code == "IncorrectState"
        assert find(ec2, instance)["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_each_action_is_throttled_by_itself_and_works_again():
    with double(throttle=[{"action": "Describe*", "per_second": 0, "burst": 2}]) as endpoint:
        ec2 = client(endpoint)
        assert codes(ec2.describe_volumes, 3) == ["", "", "RequestLimitExceeded"]
        assert code_of(ec2.describe_images) == ""
        assert codes(ec2.get_ebs_encryption_by_default, 3) == [""] * 3
        change(endpoint, throttle=[{"per_second": 20, "burst": 1}])
        assert codes(client(endpoint, attempts=8).describe_volumes, 4) == [""] * 4


@pytest.mark.parametrize(
    ("service", "call", "arguments", "code"),
    [
        ("service-quotas", "list_service_quotas", {"ServiceCode": "ec2"}, "TooManyRequestsException"),
        ("pricing", "get_products", {"ServiceCode": "AmazonEC2"}, "ThrottlingException"),
        ("s3", "list_buckets", {}, "SlowDown"),
        ("iam", "list_roles", {}, "Throttling"),
    ],
)
def test_every_service_throttles_in_its_own_words(service, call, arguments, code):
    with double(throttle=[{"per_second": 0, "burst": 0}]) as endpoint:
        assert code_of(getattr(client(endpoint, service), call), **arguments) == code


def test_a_slow_call_holds_up_no_other():
    with double(latency=[{"action": "DescribeVolumes", "seconds": 600}]) as endpoint:
        ec2 = client(endpoint)
        slow = [threading.Thread(target=code_of, args=[ec2.describe_volumes], daemon=True) for _ in range(8)]
        for thread in slow:
            thread.start()
        assert code_of(ec2.describe_images) == ""
        assert all(thread.is_alive() for thread in slow)


def test_new_ids_are_found_late_and_their_tags_later():
    with double(timing=[{"ids": "forever", "tags": "forever"}]) as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2)["InstanceId"]
        assert code_of(ec2.describe_instances, InstanceIds=[made]) == "InvalidInstanceID.NotFound"
        assert code_of(ec2.create_tags, Resources=[made], Tags=TAGS) == "InvalidInstanceID.NotFound"
        assert alive(ec2) == []
        change(endpoint, timing=[{"tags": "forever"}])
        tagged = [{"Name": "tag:run", "Values": ["r1"]}]
        assert find(ec2, made).get("Tags", []) == [] == ec2.describe_instances(Filters=tagged)["Reservations"]
        change(endpoint)
        assert find(ec2, made)["Tags"] == TAGS and ec2.describe_instances(Filters=tagged)["Reservations"]


def test_the_log_names_what_a_policy_must_allow(tmp_path):
    log = tmp_path / "calls.jsonl"
    with running(Scenario.model_validate(BASE), log) as endpoint:
        launch(client(endpoint))
        code_of(client(endpoint).describe_instances, InstanceIds=["i-0"])
        store = client(endpoint, "s3")
        store.create_bucket(Bucket="runs")
        store.put_object(Bucket="runs", Key="a/b", Body=b"x")
        assert store.list_objects_v2(Bucket="runs")["KeyCount"] == 1
        with urllib.request.urlopen(f"{endpoint}/double/calls") as answer:
            told = json.load(answer)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert rows == told
    assert [row["iam"] for row in rows] == [
        ["ec2:RunInstances", "ec2:CreateTags"],
        ["ec2:DescribeInstances"],
        ["s3:CreateBucket"],
        ["s3:PutObject"],
        ["s3:ListBucket"],
    ]
    assert [row["code"] for row in rows] == [None, "InvalidInstanceID.NotFound", None, None, None]
    assert rows[0]["region"] == "us-east-1" and rows[0]["seconds"] > 0


def test_what_it_cannot_do_it_says_at_once():
    with double() as endpoint:
        patient = client(endpoint, attempts=5)
        assert code_of(patient.enable_volume_io, VolumeId="vol-1") == "InvalidAction"
        with urllib.request.urlopen(f"{endpoint}/double/calls") as answer:
            assert len(json.load(answer)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[offers]]\nregion = 'us-east-1'\n", "instance_types"),
        ("[[offers]]\nregion = 'r'\ninstance_types = ['t']\nprize = 1\n", "prize"),
        ("[[timing]]\npending = 'soon'\n", 'must be seconds, "90s", "-3d"'),
        ("[[quotas]]\nmarket = 'black'\nfamily = 'p'\nvcpus = 1\n", "market"),
        ("[[", "end of document"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_key(tmp_path, text, message):
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_scenario(path)


@pytest.mark.parametrize(
    ("text", "seconds"), [(5, 5), ("90s", 90), ("-3d", -259200), ("+2h", 7200), ("forever", 10**9)]
)
def test_times(text, seconds):
    assert parse_seconds(text) == seconds


def test_the_command_names_the_file_that_it_cannot_read(tmp_path):
    command = [sys.executable, "-m", "tests.fakes.aws", "--scenario", tmp_path / "none.toml"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and str(tmp_path / "none.toml") in ended.stderr


def test_the_command_serves_the_sample_until_it_is_told_to_end(tmp_path):
    sample = ROOT / "tests/fakes/aws/sample.toml"
    assert read_scenario(sample).region_names()
    command = [sys.executable, "-m", "tests.fakes.aws", "--scenario", sample, "--log", tmp_path / "log"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as double:
        endpoint = double.stdout.readline().strip().removeprefix("export AWS_ENDPOINT_URL=")
        assert client(endpoint).describe_regions()["Regions"]
        double.send_signal(signal.SIGTERM)
        assert double.wait(60) == 0
    assert json.loads((tmp_path / "log").read_text())["action"] == "DescribeRegions"
