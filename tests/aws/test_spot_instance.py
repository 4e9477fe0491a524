"""The role spot_instance as playbooks play it, against the double of AWS."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from launches import HOME, IMAGE_PARAMETER, REGIONS, T3, ec2, host_key, market, offer
from permissions import allowed

from tests.roles.playing import PROJECT

PLAY = "../tests/aws/spot_instance_play.yml"
PROFILE = {"architecture": "x86_64", "mxnet_wheel": "mxnet-cu112", "roof_images_per_second": 1}
BAKED = {
    "id": "ami-baked", "region": HOME, "name": "baked", "public": False, "size_gib": 60, "created": "-1h",
    "tags": {"kit": "image-trainer", "architecture": "x86_64", "mxnet_wheel": "mxnet-cu112"},
}  # fmt: skip
OLDER = BAKED | {"id": "ami-older", "name": "older", "created": "-2d"}
OTHER = BAKED | {"id": "ami-other", "name": "other", "tags": BAKED["tags"] | {"mxnet_wheel": "mxnet-cu102"}}
MAX_PRICE = "InstanceMarketOptions.SpotOptions.MaxPrice"


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
        "spot_instance_image_parameters": {"us-east-1": IMAGE_PARAMETER, HOME: "/never/needed/for/a/baked/image"},
        "spot_instance_max_price_usd": 9, "spot_instance_max_price_by_region_usd": {HOME: 2.25, "us-east-1": 10},
    }  # fmt: skip
    with aws(scenario, "launch"):
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
    asked = [call for call in calls() if call["action"] == "RunInstances"]
    caps = {call["region"]: call["parameters"].get(MAX_PRICE) for call in asked if MAX_PRICE in call["parameters"]}
    assert caps == {"us-east-1": "9.000000", HOME: "2.250000"}
    # Those: test_spot_instance_found.py.
    not_here = {"ec2:CancelSpotInstanceRequests", "ec2:StartInstances"}
    assert spot.used.isdisjoint(not_here)
    assert spot.used | not_here == allowed("launch")


def test_a_key_pair_that_the_region_knows_is_neither_made_again_nor_taken_for_another(aws, spot, calls, tmp_path):
    denied = {"action": "RunInstances", "codes": ["UnauthorizedOperation"], "forever": True}
    settings = {"spot_instance_offers": [offer()], "spot_instance_profiles": {T3: PROFILE}}
    with aws(market(faults=[denied])):
        other = host_key(tmp_path).with_suffix(".pub").read_bytes()
        ec2().import_key_pair(KeyName="image-trainer-r1", PublicKeyMaterial=other)
        for _ in range(2):
            done, _ = spot("main", **settings)
            assert "UnauthorizedOperation" in words(done)
            [known] = ec2().describe_key_pairs(IncludePublicKey=True)["KeyPairs"]
            assert known["PublicKey"].split()[:2] == (tmp_path / "run/r1/ssh/id_ed25519.pub").read_text().split()[:2]
    changes = [call["action"] for call in calls() if call["action"] in ("ImportKeyPair", "DeleteKeyPair")]
    assert changes == ["ImportKeyPair", "DeleteKeyPair", "ImportKeyPair"]  # the first is the test's own


def there(**more):
    tags = {"kit": "image-trainer", "run": "r1"}
    return {"region": HOME, "zone": f"{HOME}a", "instance_type": T3, "tags": tags} | more


def test_a_host_that_does_not_answer_is_told_with_ssh_s_reason_and_what_became_of_it(aws, spot, tmp_path):
    with aws(market(instances=[there()], addresses=["127.0.0.9"])):
        done, _ = spot("wait", __spot_instance_answer_retries=1)
        [one] = ec2().describe_instances()["Reservations"][0]["Instances"]
        (tmp_path / "run/r1/sealed").write_text(f"{one['InstanceId']}\n")
        sealed, _ = spot("wait", __spot_instance_answer_retries=1)
    assert "It is sealed: playbooks/image.yml goes on" in words(sealed)
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
    ({"spot_instance_max_price_usd": -1}, 'must be above 0, got "-1", {}, "900", "40", "120"'),
    ({"spot_instance_max_price_by_region_usd": {HOME: 0}}, 'above 0, got "", {"us-west-2": 0}, "900", "40", "120"'),
    ({"spot_instance_unconfigured_minutes": 0}, 'must be above 0, got "", {}, "900", "40", "0"'),
    (
        {"spot_instance_run": "two"},
        "Run two has 2 instances, and none is picked: i-", "(t3.micro, running, in us-west-2a)",
        "(t3.micro, stopped, in eu-west-1b)",
    ),
    (
        {"spot_instance_run": "of-another"},
        "ssh/id_ed25519 is missing: it was launched from another controller",
    ),
    (
        {"spot_instance_offers": [offer(market="on_demand"), offer("eu-west-1a", "eu-west-1", price=1.8)],
         "spot_instance_max_price_by_region_usd": {"eu-west-1": 1.7, HOME: 2}},
        "of 2 offers none is within spot_instance_allow_on_demand (False)",
    ),
]  # fmt: skip


def test_what_ends_a_launch_before_anything_is_made(aws, play, tmp_path):
    """One play, and each of its hosts has a setting, or an instance, of its own."""
    common = {"checkout": str(PROJECT), "spot_instance_run": "r1", "spot_instance_run_directory": str(tmp_path)}
    hosts = {f"trainer-{number}": settings for number, (settings, *_) in enumerate(BAD)}
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"trainers": {"hosts": hosts, "vars": common}}))
    two = {"kit": "image-trainer", "run": "two"}
    instances = [there(tags=two), there(tags=two, region="eu-west-1", zone="eu-west-1b", state="stopped"),
                 there(tags=two | {"run": "of-another"})]  # fmt: skip
    with aws(market(instances=instances)):
        done = play(PLAY, "entry=main", inventory=inventory)
        assert left() == []
    assert done.returncode == 2
    told = words(done)
    for number, (_, *messages) in enumerate(BAD):
        own = re.split(rf"(?:fatal|failed): \[trainer-{number}\]", told)[1]
        for message in messages:
            assert message in re.split(r"(?:fatal|failed): \[", own)[0]


@pytest.mark.slow  # it waits for the time limit
def test_after_the_time_limit_no_other_region_is_touched_and_what_was_launched_late_is_kept(aws, play, calls, tmp_path):
    """Two runs; in the first region no launch is answered in time, and there is room for one of them only."""
    hosts = {
        name: {
            "spot_instance_run": name, "spot_instance_run_directory": str(tmp_path / name),
            "found_path": str(tmp_path / name / "found.json"),
        }
        for name in ("r1", "r2")
    }  # fmt: skip
    for name in hosts:
        (tmp_path / name).mkdir()
    common = {
        "checkout": str(PROJECT), "spot_instance_ssh_cidr": "192.0.2.7/32", "spot_instance_timeout_seconds": 35,
        "spot_instance_offers": [offer("us-east-1a", "us-east-1"), offer()],
    }  # fmt: skip
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"trainers": {"hosts": hosts, "vars": common}}))
    late = {"action": "RunInstances", "region": "us-east-1"}
    full = late | {"codes": ["InsufficientInstanceCapacity"]}
    with aws(market(latency=[late | {"seconds": 37}], faults=[full])):
        told = words(play(PLAY, "entry=main", inventory=inventory))
    assert re.search(r"for run r[12] within 35 s: t3.micro spot in us-east-1a: no capacity", told), told
    [found] = [json.loads(path.read_text()) for path in tmp_path.glob("r?/found.json")]
    assert found["zone"] == "us-east-1a"
    assert sum(call["action"] == "RunInstances" for call in calls()) == 2
    looked = {call["action"] for call in calls() if call["region"] == HOME}
    assert looked == {"DescribeInstances", "DescribeSpotInstanceRequests"}


def test_an_empty_name_ends_nothing(spot):
    done, _ = spot("retire", spot_instance_run="")
    assert done.returncode == 2
    assert "spot_instance_run must be 1 to 100 letters" in words(done)
