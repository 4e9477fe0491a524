"""Instances of the double: launches, tokens, capacity, quota, requests, states, addresses, the bill."""

import pytest
from double_market import BASE, TAGS, alive, control, double, find, launch

from tests.fakes.aws.addresses import is_allowed
from tests.fakes.aws.clients import client, code_of


def test_spot_launch_is_tagged_throughout_and_ends():
    with double() as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2)
        assert made["State"]["Name"] == "pending"
        seen = find(ec2, made["InstanceId"])
        assert (seen["State"]["Name"], seen["InstanceLifecycle"]) == ("running", "spot")
        assert seen["Placement"]["AvailabilityZone"] == "us-east-1a"
        [request] = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
        assert request["InstanceId"] == made["InstanceId"] and seen["SpotInstanceRequestId"] == request[
            "SpotInstanceRequestId"
        ]
        [volume] = ec2.describe_volumes()["Volumes"]
        assert [seen["Tags"], request["Tags"], volume["Tags"]] == [TAGS] * 3
        ec2.terminate_instances(InstanceIds=[made["InstanceId"]])
        assert find(ec2, made["InstanceId"])["State"]["Name"] == "terminated"
        assert ec2.describe_volumes()["Volumes"] == []
        assert ec2.describe_spot_instance_requests()["SpotInstanceRequests"][0]["State"] == "closed"
        assert control(endpoint, "state") == {"us-east-1": []}


def test_states_take_the_scenarios_time():
    with double(timing=[{"pending": "forever", "shutting_down": "forever"}]) as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2)["InstanceId"]
        assert find(ec2, made)["State"]["Name"] == "pending"
        ec2.terminate_instances(InstanceIds=[made])
        assert find(ec2, made)["State"]["Name"] == "shutting-down"


def test_client_token():
    with double() as endpoint:
        ec2 = client(endpoint)
        first = launch(ec2, token="t1")["InstanceId"]
        assert launch(ec2, token="t1")["InstanceId"] == first
        assert code_of(launch, ec2, token="t1", zone="us-east-1b") == "IdempotentParameterMismatch"
        assert launch(ec2, token="t2")["InstanceId"] != first


@pytest.mark.parametrize(
    ("changes", "options", "code"),
    [
        ({}, {"zone": "us-east-1c"}, "Unsupported"),
        ({}, {"name": "g5.xlarge"}, "Unsupported"),
        ({}, {"max_price": "1.5"}, "SpotMaxPriceTooLow"),
        ({}, {"max_price": "1.9"}, ""),
        ({}, {"ImageId": "ami-2"}, "InvalidAMIID.NotFound"),
        ({"quotas": [{"market": "spot", "family": "p", "vcpus": 63}]}, {}, "MaxSpotInstanceCountExceeded"),
        ({"quotas": [{"market": "spot", "family": "p", "vcpus": 63}]}, {"name": "t3.micro"}, ""),
        ({"quotas": [{"market": "on_demand", "family": "p", "vcpus": 0}]}, {"spot": False}, "VcpuLimitExceeded"),
        ({"offers": [BASE["offers"][0] | {"spot_capacity": 0}]}, {}, "InsufficientInstanceCapacity"),
        ({"offers": [BASE["offers"][0] | {"spot_capacity": 0}]}, {"spot": False}, ""),
        ({"offers": [BASE["offers"][0] | {"spot_capacity": [["-1h", 0], ["-1s", 1]]}]}, {}, ""),
        ({}, {"DryRun": True}, "DryRunOperation"),
    ],
)
def test_what_a_launch_needs(changes, options, code):
    with double(**changes) as endpoint:
        assert code_of(launch, client(endpoint), **options) == code


def test_capacity_is_taken_and_given_back():
    with double(offers=[BASE["offers"][0] | {"spot_capacity": 1}]) as endpoint:
        ec2 = client(endpoint)
        first = launch(ec2)["InstanceId"]
        assert code_of(launch, ec2) == "InsufficientInstanceCapacity"
        ec2.terminate_instances(InstanceIds=[first])
        assert code_of(launch, ec2) == ""


def test_a_subnets_zone_counts():
    with double(offers=[BASE["offers"][0] | {"zones": ["us-east-1b"]}]) as endpoint:
        ec2 = client(endpoint)
        subnets = {row["AvailabilityZone"]: row["SubnetId"] for row in ec2.describe_subnets()["Subnets"]}
        place = {"InstanceType": "p2.16xlarge", "ImageId": "ami-1", "MinCount": 1, "MaxCount": 1}
        assert code_of(ec2.run_instances, SubnetId=subnets["us-east-1a"], **place) == "Unsupported"
        made = ec2.run_instances(SubnetId=subnets["us-east-1b"], **place)["Instances"][0]
        assert made["Placement"]["AvailabilityZone"] == "us-east-1b"


def request(ec2, kind):
    specification = {"ImageId": "ami-1", "InstanceType": "p2.16xlarge"}
    asked = ec2.request_spot_instances(InstanceCount=1, Type=kind, LaunchSpecification=specification)
    return asked["SpotInstanceRequests"][0]["SpotInstanceRequestId"]


@pytest.mark.parametrize(
    ("kind", "cancel", "count"), [("persistent", False, 1), ("persistent", True, 0), ("one-time", False, 0)]
)
def test_persistent_requests_launch_again_until_cancelled(kind, cancel, count):
    with double() as endpoint:
        ec2 = client(endpoint)
        request_id = request(ec2, kind)
        if cancel:
            ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[request_id])
        [first] = alive(ec2)  # cancelling ends no instance
        ec2.terminate_instances(InstanceIds=[first])
        assert len(alive(ec2)) == count and first not in alive(ec2)


def test_open_requests_cost_nothing_and_can_be_cancelled():
    with double(timing=[{"open_request": "forever"}]) as endpoint:
        ec2 = client(endpoint)
        request_id = request(ec2, "one-time")
        assert alive(ec2) == [] and ec2.describe_volumes()["Volumes"] == []
        ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[request_id])
        [row] = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
        assert (row["State"], row["Status"]["Code"]) == ("cancelled", "canceled-before-fulfillment")
        unknown = code_of(ec2.cancel_spot_instance_requests, SpotInstanceRequestIds=["sir-1"])
        assert unknown == "InvalidSpotInstanceRequestID.NotFound"


def test_what_stands_there_from_the_start():
    older = {"region": "us-east-1", "zone": "us-east-1b", "instance_type": "p2.16xlarge", "tags": {"run": "r1"}}
    rows = [older | {"market": "spot", "request": "persistent"}, older | {"state": "stopped"}]
    with double(instances=rows) as endpoint:
        ec2 = client(endpoint)
        assert len(alive(ec2)) == 1
        assert ec2.describe_spot_instance_requests()["SpotInstanceRequests"][0]["Type"] == "persistent"
        kinds = sorted(row["kind"] for row in control(endpoint, "state")["us-east-1"])
        assert kinds == ["instance", "instance", "spot_request", "volume", "volume"]


def test_one_time_spot_instances_cannot_be_stopped():
    with double() as endpoint:
        ec2 = client(endpoint)
        spot, other = launch(ec2)["InstanceId"], launch(ec2, spot=False)["InstanceId"]
        assert code_of(ec2.stop_instances, InstanceIds=[spot]) == "UnsupportedOperation"
        ec2.stop_instances(InstanceIds=[other])
        assert find(ec2, other)["State"]["Name"] == "stopped"
        ec2.start_instances(InstanceIds=[other])
        assert find(ec2, other)["State"]["Name"] == "running"


def test_interruption_and_power_off():
    with double() as endpoint:
        ec2 = client(endpoint)
        taken = launch(ec2)["InstanceId"]
        control(endpoint, "interrupt", {"instance": taken})
        assert find(ec2, taken)["StateReason"]["Code"] == "Server.SpotInstanceTermination"
        gone = launch(ec2, InstanceInitiatedShutdownBehavior="terminate")["InstanceId"]
        assert control(endpoint, "power_off", {"instance": gone})["state"] == "shutting-down"
        stays = launch(ec2, spot=False)["InstanceId"]
        assert control(endpoint, "power_off", {"instance": stays})["state"] == "stopped"


def test_bill_is_hours_times_price():
    prices = [["-2d", 5.0], ["-1d", 1.8], ["+1h", 99.0]]
    with double(offers=[BASE["offers"][0] | {"spot_usd_per_hour": prices}]) as endpoint:
        ec2 = client(endpoint)
        spot, other = launch(ec2)["InstanceId"], launch(ec2, spot=False)["InstanceId"]
        ec2.terminate_instances(InstanceIds=[spot, other])
        rows = {row["id"]: row for row in control(endpoint, "bill")}
        assert sorted(row["kind"] for row in rows.values()) == ["instance", "instance", "volume", "volume"]
        for instance_id, price in ((spot, 1.8), (other, 14.4)):
            assert rows[instance_id]["seconds"] < 60
            assert rows[instance_id]["usd"] == pytest.approx(60 * price / 3600)
        assert all(row["ended"] for row in rows.values())


@pytest.mark.parametrize(
    ("launched", "ended", "taken_back", "usd"),
    [("-5h", "-2h", True, 3 * 1.8), ("-5h", "-2h", False, 3 * 1.8), ("-3h", "-150m", True, 0.0),
     ("-3h", "-150m", False, 0.9)],
)  # fmt: skip
def test_a_first_hour_that_aws_cuts_short_is_free(launched, ended, taken_back, usd):
    older = {"region": "us-east-1", "zone": "us-east-1b", "instance_type": "p2.16xlarge", "market": "spot",
             "launched": launched, "ended": ended, "taken_back": taken_back}  # fmt: skip
    with double(instances=[older]) as endpoint:
        [row] = [row for row in control(endpoint, "bill") if row["kind"] == "instance"]
        assert row["usd"] == pytest.approx(usd)
        [told] = client(endpoint).describe_instances()["Reservations"][0]["Instances"]
        assert told["StateTransitionReason"].startswith("Service" if taken_back else "User")
        assert told["State"]["Name"] == "terminated"


def test_console_output():
    with double(console="ssh-ed25519 AAAA host") as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2)["InstanceId"]
        assert ec2.get_console_output(InstanceId=made)["Output"] == "ssh-ed25519 AAAA host"
        control(endpoint, "console", {"instance": made, "text": "other"})
        assert ec2.get_console_output(InstanceId=made)["Output"] == "other"


def texts(value):
    if isinstance(value, dict):
        for key, one in value.items():
            yield from ((key, one),) if isinstance(one, str) else texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


@pytest.mark.parametrize("addresses", [[], ["127.0.0.9", "127.0.0.10"]])
def test_no_address_leads_anywhere_else(addresses):
    with double(addresses=addresses) as endpoint:
        ec2 = client(endpoint)
        made = [launch(ec2)["InstanceId"] for _ in range(2)]
        elastic = ec2.allocate_address(Domain="vpc")
        answers = [elastic, *(find(ec2, one) for one in made), *ec2.describe_network_interfaces()["NetworkInterfaces"]]
        keys = ("PublicIp", "PrivateIpAddress", "PublicIpAddress")
        found = [text for key, text in texts(answers) if key in keys]
        names = [text for key, text in texts(answers) if key in ("PublicDnsName", "PrivateDnsName")]
        assert len(found) >= 8 and all(is_allowed(text) for text in found)
        assert names and all(name.endswith(".invalid") for name in names)
        assert [find(ec2, one)["PublicIpAddress"] for one in made] == addresses or not addresses


def test_public_addresses_are_refused():
    wrong = pytest.raises(ValueError, match=r"loopback or test-net addresses, got 8\.8\.8\.8")
    with wrong, double(addresses=["8.8.8.8"]):
        pass


def test_another_scenario_from_here_on():
    with double() as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2)["InstanceId"]
        drought = b"""
            [[offers]]
            region = "us-east-1"
            instance_types = ["p2.16xlarge"]
            spot_capacity = 0
            """
        control(endpoint, "scenario", drought)
        assert code_of(launch, ec2) == "InsufficientInstanceCapacity"
        assert find(ec2, made)["State"]["Name"] == "running"
