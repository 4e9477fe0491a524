"""What each error of a launch means, what a launch asks for, and which offers are taken."""

import re
import sys

import pytest
import role_modules  # noqa: F401
from ansible.module_utils.launch_errors import ERRORS, error_row, in_effect
from ansible.module_utils.launch_place import image_tags
from ansible.module_utils.launch_request import launch_parameters, launch_token, user_data

from tests.roles.playing import ROLES

sys.path.insert(0, str(ROLES / "spot_instance" / "filter_plugins"))
import spot_instance_offers as filters  # noqa: E402

STEPS = {"zone", "region", "wait", "again", "anew", "stop"}
OFFER = {"region": "r", "zone": "ra", "market": "spot", "instance_type": "t", "price_usd_per_hour": 2.0}
PLACE = {
    "image_id": "ami-1", "root_device": "/dev/xvda", "root_gb": 40, "subnet_id": "subnet-1", "key_name": "k",
    "security_group_id": "sg-1",
}  # fmt: skip
WANTED = {"tags": {"run": "r1", "kit": "image-trainer"}, "instance_profile": "", "max_price_usd": None}


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("InsufficientInstanceCapacity", "zone"), ("UnfulfillableCapacity", "zone"), ("SpotMaxPriceTooLow", "zone"),
        ("Unsupported", "zone"), ("Server.InsufficientInstanceCapacity", "zone"), ("NeverHeardOf", "zone"),
        ("MaxSpotInstanceCountExceeded", "region"), ("VcpuLimitExceeded", "region"), ("AuthFailure", "region"),
        ("InvalidAMIID.NotFound", "region"), ("RequestLimitExceeded", "wait"), ("InvalidGroup.NotFound", "wait"),
        ("InternalError", "again"), ("NoAnswer", "again"), ("IdempotentInstanceTerminated", "anew"),
        ("ExpiredToken", "stop"), ("Blocked", "stop"),
    ],
)  # fmt: skip
def test_steps(code, step):
    assert error_row(code).step == step


def test_every_row_says_what_to_do_what_it_means_and_whence_it_is():
    for code, row in ERRORS.items():
        assert row.step in STEPS and row.meaning and row.source, code
    assert {row.step for row in ERRORS.values()} == STEPS


@pytest.mark.parametrize(
    ("code", "message", "meant"),
    [
        ("InvalidParameterValue", "Value (x) ... Invalid IAM Instance Profile name", "InvalidIamInstanceProfile"),
        ("InvalidParameterValue", "Invalid availability zone: [us-east-1q]", "Unsupported"),
        ("InvalidParameterValue", "Invalid value for VolumeSize", "InvalidParameterValue"),
        ("AuthFailure", "Invalid IAM Instance Profile name", "AuthFailure"),
    ],
)
def test_one_code_for_several_things_is_told_by_its_message(code, message, meant):
    assert in_effect(code, message) == meant


def test_a_spot_launch_is_one_time_ends_by_itself_and_is_tagged_throughout():
    asked = launch_parameters(OFFER, PLACE, WANTED)
    assert asked["InstanceMarketOptions"]["SpotOptions"]["SpotInstanceType"] == "one-time"
    assert "MaxPrice" not in asked["InstanceMarketOptions"]["SpotOptions"]
    assert asked["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert asked["MetadataOptions"]["HttpTokens"] == "required"
    assert asked["BlockDeviceMappings"][0]["Ebs"]["Encrypted"]
    kinds = {row["ResourceType"] for row in asked["TagSpecifications"]}
    assert kinds == {"instance", "volume", "network-interface", "spot-instances-request"}
    assert all({"Key": "run", "Value": "r1"} in row["Tags"] for row in asked["TagSpecifications"])


def test_an_on_demand_launch_names_no_request():
    asked = launch_parameters(OFFER | {"market": "on_demand"}, PLACE, WANTED | {"max_price_usd": 1.0})
    assert "InstanceMarketOptions" not in asked
    assert "spot-instances-request" not in {row["ResourceType"] for row in asked["TagSpecifications"]}


def test_a_token_changes_with_run_attempt_and_every_parameter():
    asked = launch_parameters(OFFER, PLACE, WANTED)
    token = launch_token("r1", 1, asked)
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert launch_token("r1", 1, launch_parameters(OFFER, PLACE, WANTED)) == token
    others = [
        launch_token("r2", 1, asked), launch_token("r1", 2, asked),
        *[launch_token("r1", 1, launch_parameters(OFFER, PLACE | {key: "x"}, WANTED)) for key in PLACE],
        launch_token("r1", 1, launch_parameters(OFFER, PLACE, WANTED | {"instance_profile": "p"})),
    ]  # fmt: skip
    assert len({token, *others}) == len(others) + 1


def test_user_data_gives_the_host_its_key():
    import yaml

    text = user_data("-----BEGIN\nkey\n-----END\n", "ssh-ed25519 AAAA c\n", 90)
    assert text.startswith("#cloud-config\n")
    assert len(text) < 16384 / 2  # AWS's limit; a real key is less than 500 bytes long
    config = yaml.safe_load(text)
    assert config["ssh_deletekeys"]
    assert config["ssh_keys"] == {
        "ed25519_private": "-----BEGIN\nkey\n-----END\n", "ed25519_public": "ssh-ed25519 AAAA c",
    }  # fmt: skip


def test_user_data_lets_a_host_that_nobody_configures_power_itself_off():
    import yaml

    config = yaml.safe_load(user_data("private", "public", 90))
    service, timer = config["write_files"]
    assert service["path"] == "/etc/systemd/system/unconfigured-power-off.service"
    assert "ExecStart=/usr/bin/systemctl poweroff\n" in service["content"]
    assert timer["path"] == "/etc/systemd/system/unconfigured-power-off.timer"
    assert "OnActiveSec=90min\n" in timer["content"]
    assert config["runcmd"] == [["systemctl", "enable", "--now", "unconfigured-power-off.timer"]]


@pytest.mark.parametrize(
    ("profile", "more", "tags"),
    [
        ({"driver_branch": 470, "mxnet_wheel": "mxnet-cu102", "gpus": 16}, {}, {"driver_branch": "470",
                                                                             "mxnet_wheel": "mxnet-cu102"}),
        ({"architecture": "x86_64", "driver_branch": ""}, {"kit_version": 1}, {"architecture": "x86_64",
                                                                             "kit_version": "1"}),
    ],
)  # fmt: skip
def test_tags_of_a_baked_image(profile, more, tags):
    assert image_tags(profile, more) == tags | {"kit": "image-trainer"}


@pytest.mark.parametrize(
    ("on_demand", "most", "regions", "prices"),
    [
        (False, None, {}, [2.0, 3.0]), (True, None, {}, [2.0, 2.5, 3.0]), (True, "2.5", {}, [2.0, 2.5]),
        (False, "", {}, [2.0, 3.0]), (True, None, {OFFER["region"]: 2}, [2.0]), (True, 2, {OFFER["region"]: 9}, [2.0]),
        (True, None, {"elsewhere": 1}, [2.0, 2.5, 3.0]),
    ],
)  # fmt: skip
def test_offers_that_may_be_taken(on_demand, most, regions, prices):
    offers = [OFFER, OFFER | {"market": "on_demand", "price_usd_per_hour": 2.5}, OFFER | {"price_usd_per_hour": 3.0}]
    kept = filters.spot_instance_allowed(offers, on_demand, most, regions)
    assert [row["price_usd_per_hour"] for row in kept] == prices


def test_offers_keep_their_order_when_grouped_by_region():
    offers = [OFFER | {"region": name, "rank": rank} for rank, name in enumerate("aabac")]
    groups = filters.spot_instance_by_region(offers)
    assert [group["region"] for group in groups] == ["a", "b", "a", "c"]
    assert [row["rank"] for group in groups for row in group["offers"]] == [0, 1, 2, 3, 4]


def test_a_refusal_of_the_region_leaves_out_the_type_and_market_there():
    offers = [OFFER, OFFER | {"zone": "rb"}, OFFER | {"market": "on_demand"}, OFFER | {"region": "q"}]
    assert filters.spot_instance_left(offers, [OFFER | {"step": "zone"}]) == offers
    assert filters.spot_instance_left(offers, [OFFER | {"step": "region"}]) == offers[2:]


@pytest.mark.parametrize(
    ("cidr", "words"),
    [
        ("192.0.2.7/32", ""), ("10.20.0.0/16", ""), ("2001:db8::/32", ""), ("192.0.2.7", ""),
        ("0.0.0.0/0", "open to too many"), ("::/0", "open to too many"), ("128.0.0.0/1", "open to too many"),
        ("10.0.0.0/8", "open to too many"), ("2000::/3", "open to too many"), ("192.0.2.7/24", "host bits set"),
        ("office", "is no network like"), ("", "is no network like"),
    ],
)  # fmt: skip
def test_networks_that_a_host_may_be_opened_to(cidr, words):
    told = filters.spot_instance_wrong_networks([cidr])
    assert (words in told[0]) if words else told == []


def test_rules():
    assert filters.spot_instance_rules("192.0.2.7/32", ["2001:db8::/48"], 8470) == [
        {"proto": "tcp", "ports": [22], "cidr_ip": "192.0.2.7/32", "rule_desc": "ssh"},
        {"proto": "tcp", "ports": [8470], "cidr_ipv6": "2001:db8::/48", "rule_desc": "monitor"},
    ]


@pytest.mark.parametrize(("address", "network"), [("192.0.2.7\n", "192.0.2.7/32"), ("2001:db8::1", "2001:db8::1/128")])
def test_the_network_of_one_address(address, network):
    assert filters.spot_instance_network_of(address) == network


@pytest.mark.parametrize(("zone", "network"), [("us-east-1a", "10.73.0.0/24"), ("us-east-1f", "10.73.5.0/24")])
def test_the_part_of_a_network_for_a_zone(zone, network):
    assert filters.spot_instance_zone_network(zone, "10.73.0.0/16") == network
