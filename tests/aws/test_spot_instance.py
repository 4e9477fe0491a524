"""The role spot_instance as playbooks play it, against the double of AWS."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from launches import HOME, REGIONS, T3, ec2, market, offer

from tests.roles.playing import PROJECT

PLAY = "../tests/aws/spot_instance_play.yml"
PROFILE = {"architecture": "x86_64", "mxnet_wheel": "mxnet-cu112", "roof_images_per_second": 1}
BAKED = {
    "id": "ami-baked", "region": HOME, "name": "baked", "public": False, "size_gib": 60, "created": "-1h",
    "tags": {"kit": "image-trainer", "architecture": "x86_64", "mxnet_wheel": "mxnet-cu112"},
}  # fmt: skip
OLDER = BAKED | {"id": "ami-older", "name": "older", "created": "-2d"}
OTHER = BAKED | {"id": "ami-other", "name": "other", "tags": BAKED["tags"] | {"mxnet_wheel": "mxnet-cu102"}}


class Address(BaseHTTPRequestHandler):
    """Says where it is called from, as checkip.amazonaws.com does."""

    told = "192.0.2.7\n"

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(Address.told.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def address_url():
    server = HTTPServer(("127.0.0.1", 0), Address)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def spot(play, calls, tmp_path, address_url):
    """`spot("find", "--check", name=value)`: (the finished play, what spot_instance_found was).

    spot.used: the permissions that the plays needed.
    """
    directory = tmp_path / "run/r1"
    directory.mkdir(parents=True)
    found, inventory = directory / "found.json", tmp_path / "hosts.yml"
    inventory.write_text(f"trainers: {{hosts: {{trainer-1: {{checkout: {PROJECT}}}}}}}\n")

    def run(entry, *arguments, **changes):
        found.unlink(missing_ok=True)
        before = len(calls()) if (tmp_path / "calls.jsonl").exists() else 0
        settings = {
            "entry": entry, "found_path": str(found), "spot_instance_run": "r1",
            "spot_instance_run_directory": str(directory), "spot_instance_address_url": address_url,
            "__spot_instance_round_seconds": 1,
        }  # fmt: skip
        done = play(PLAY, json.dumps(settings | changes), *arguments, inventory=inventory)
        if (tmp_path / "calls.jsonl").exists():
            run.used |= {action for call in calls()[before:] for action in call["iam"]}
        return done, json.loads(found.read_text()) if found.exists() else None

    run.used = set()
    return run


def words(done):
    return " ".join((done.stdout + done.stderr).split())


def recap(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("PLAY RECAP")[1]


def left():
    """What a run has in all regions, costly or not."""
    tagged = [{"Name": "tag:run", "Values": ["r1"]}]
    rows = []
    for client in map(ec2, REGIONS):
        groups = client.describe_instances(Filters=tagged)["Reservations"]
        rows += [row for group in groups for row in group["Instances"] if row["State"]["Name"] != "terminated"]
        rows += client.describe_key_pairs(Filters=tagged)["KeyPairs"]
        for kind in ("SecurityGroups", "Subnets", "InternetGateways", "RouteTables", "Vpcs"):
            name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind)
            rows += getattr(client, f"describe{name}")(Filters=tagged)[kind]
    return rows


def rules():
    tagged = [{"Name": "tag:run", "Values": ["r1"]}]
    [group] = ec2().describe_security_groups(Filters=tagged)["SecurityGroups"]
    return sorted((row["FromPort"], one["CidrIp"]) for row in group["IpPermissions"] for one in row["IpRanges"])


def allowed():
    statements = json.loads((PROJECT / "docs/iam/launch.json").read_text())["Statement"]
    actions = [row["Action"] for row in statements]
    return {action for one in actions for action in ([one] if isinstance(one, str) else one)}


@pytest.mark.slow  # nine plays
def test_from_the_offers_to_nothing_left(aws, spot, calls):
    """The first region has no network of its own, no quota on demand and no spot capacity."""
    scenario = market(
        regions={name: {"default_vpc": name != "us-east-1"} for name in REGIONS},
        quotas=[{"region": "us-east-1", "market": "on_demand", "family": "standard", "vcpus": 0}],
        faults=[{"action": "RunInstances", "region": "us-east-1", "market": "spot", "forever": True,
                 "codes": ["InsufficientInstanceCapacity"]}],
        timing=[{"ids": 1, "tags": 1, "pending": 1, "shutting_down": 1}],
    )  # fmt: skip
    scenario["offers"][0]["zones"] = ["us-east-1a"]
    scenario["images"] += [OLDER, BAKED, OTHER]
    settings = {
        "spot_instance_allow_on_demand": True, "spot_instance_profiles": {T3: PROFILE},
        "spot_instance_offers": [offer(None, "us-east-1", "on_demand"), offer("us-east-1a", "us-east-1"), offer()],
        "spot_instance_monitor_cidrs": ["198.51.100.0/24"],
    }  # fmt: skip
    with aws(scenario):
        check, _ = spot("main", "--check", **settings)
        assert "changed=0" in recap(check)
        assert "Would launch t3.micro (on demand) in us-east-1 at $1.8 an hour." in words(check)
        assert {call["action"] for call in calls()} <= {
            "DescribeRegions", "DescribeInstances", "DescribeSpotInstanceRequests"
        }  # fmt: skip

        done, found = spot("main", **settings)
        recap(done)
        assert (found["zone"], found["image_id"]) == (f"{HOME}a", "ami-baked")
        assert rules() == [(22, "192.0.2.7/32"), (8470, "198.51.100.0/24")]

        again, same = spot("main", **settings)
        assert "changed=0" in recap(again)
        assert same == found
        Address.told = "192.0.2.8\n"
        moved, _ = spot("main", **settings)
        assert "changed=1" in recap(moved)
        assert rules()[0] == (22, "192.0.2.8/32")

        before = left()
        check, _ = spot("retire", "--check")
        recap(check)
        assert left() == before
        done, found = spot("retire")
        recap(done)
        assert (found, left()) == ({}, [])
        again, _ = spot("retire")
        assert "changed=0" in recap(again)
    # The first two: test_spot_instance_found.py. The third: moto's first subnet of a zone is public by itself.
    not_here = {"ec2:CancelSpotInstanceRequests", "ec2:StartInstances", "ec2:ModifySubnetAttribute"}
    assert spot.used.isdisjoint(not_here)
    assert spot.used | not_here == allowed()


def there(**more):
    tags = {"kit": "image-trainer", "run": "r1"}
    return {"region": HOME, "zone": f"{HOME}a", "instance_type": T3, "tags": tags} | more


def test_two_instances_are_listed_and_none_is_picked(aws, spot):
    with aws(market(instances=[there(), there(region="eu-west-1", zone="eu-west-1b", state="stopped")])):
        done, _ = spot("main", "--check")
    assert done.returncode == 2
    assert "Run r1 has 2 instances, and none is picked" in words(done)
    for part in ("(t3.micro, running, in us-west-2a)", "(t3.micro, stopped, in eu-west-1b)"):
        assert part in words(done)


def test_an_instance_of_another_controller_is_told(aws, spot):
    with aws(market(instances=[there()])):
        done, _ = spot("main")
    assert done.returncode == 2
    assert "ssh/id_ed25519 is missing: it was launched from another controller" in words(done)


def test_a_run_without_instance_and_offers_is_an_error_before_anything_is_made(aws, spot, calls):
    with aws(market()):
        done, _ = spot("main", spot_instance_offers=[offer(market="on_demand")])
        assert left() == []
    assert done.returncode == 2
    assert "of 1 offers none is within spot_instance_allow_on_demand (False)" in words(done)


def test_a_host_that_does_not_answer_is_told_with_ssh_s_reason_and_what_became_of_it(aws, spot):
    with aws(market(instances=[there()], addresses=["127.0.0.9"])):
        done, _ = spot("wait", __spot_instance_answer_retries=1)
    assert done.returncode == 2
    for part in ("at 127.0.0.9: ", "ssh: connect to host 127.0.0.9 port 22: Connection refused. It is running"):
        assert part in words(done)


BAD = [
    ({"spot_instance_run": ""}, 'begin with a letter or a digit, got ""'),
    (
        {"spot_instance_ssh_cidr": "10.0.0.0/8", "spot_instance_monitor_cidrs": ["::/0", "office"]},
        "10.0.0.0/8 is open to too many; at most a /16 is allowed, ::/0 is open to too many; at most a /32 is "
        "allowed, office is no network like 192.0.2.7/32",
    ),
    ({"spot_instance_max_price": 5}, "Unknown settings: spot_instance_max_price;"),
    ({"spot_instance_max_price_usd": -1}, 'must be above 0, got "-1", "900", "40", "120"'),
    ({"spot_instance_unconfigured_minutes": 0}, 'must be above 0, got "", "900", "40", "0"'),
]


def test_bad_settings_are_an_error_in_words(play, tmp_path):
    """One play, and each of its hosts has a setting of its own."""
    common = {"checkout": str(PROJECT), "spot_instance_run": "r1", "spot_instance_run_directory": str(tmp_path)}
    hosts = {f"trainer-{number}": settings for number, (settings, _) in enumerate(BAD)}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"trainers": {"hosts": hosts, "vars": common}}))
    done = play(PLAY, "entry=main", inventory=inventory)
    assert done.returncode == 2
    told = words(done)
    for number, (_, message) in enumerate(BAD):
        assert message in told.split(f"fatal: [trainer-{number}]: ")[1].split("fatal: ")[0]


def test_an_empty_name_ends_nothing(spot):
    done, _ = spot("retire", spot_instance_run="")
    assert done.returncode == 2
    assert "spot_instance_run must be 1 to 100 letters" in words(done)
