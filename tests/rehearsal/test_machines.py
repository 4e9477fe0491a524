"""The machines behind the double's instances: what a playbook and a trainer meet on them."""

import json
import subprocess
import time
from pathlib import Path

import network
import pytest

from tests.fakes.aws.clients import client
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.rehearsal.machines import machines

REGIONS = ("us-east-1", "us-west-2")
SCENARIO = {
    "offers": [
        {"region": region, "instance_types": ["c6i.large", "m3.medium"], "on_demand_usd_per_hour": 0.1,
         "spot_usd_per_hour": 0.03}
        for region in REGIONS
    ],
    "images": [{"id": f"ami-{number}", "region": region} for number, region in enumerate(REGIONS)],
    "snapshots": [{"id": "snap-given", "region": "us-east-1", "size_gib": 1}],
    "timing": [{"pending": "forever"}],
}  # fmt: skip
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}],
}

# What a machine sees of the metadata service, and of AWS at the address that its units are told.
LOOK = """
import json, re, urllib.request
def get(url, **headers):
    method = headers.pop("method", "GET")
    return urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers)).read().decode()
token = get("http://metadata.invalid/latest/api/token", method="PUT")
def data(path):
    return get(f"http://metadata.invalid/latest/meta-data/{path}", **{"X-aws-ec2-metadata-token": token})
endpoint = re.search("AWS_ENDPOINT_URL=([^ ]+)", open("/etc/systemd/system.conf.d/double.conf").read())[1]
state = json.loads(get(f"{endpoint}/double/state"))
states = [row["state"] for rows in state.values() for row in rows if row["kind"] == "instance"]
print(json.dumps({"roles": data("iam/security-credentials/"), "instance": data("instance-id"), "states": states}))
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A login key and a host key, made as a controller makes them."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("login", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    return folder


@pytest.fixture(scope="module")
def endpoint():
    with running(Scenario.model_validate(SCENARIO)) as url:
        yield url


@pytest.fixture(scope="module")
def fleet(layers, endpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("disks")
    given = folder / "given"
    with given.open("wb") as file:
        file.truncate(1 << 30)
    subprocess.run(["mkfs.ext4", "-q", "-L", "pictures", given], check=True)
    with machines(endpoint, layers.bare(), folder, {"snap-given": given}) as fleet:
        yield fleet


def wait(condition, limit_seconds=60):
    deadline = time.monotonic() + limit_seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {limit_seconds} s"
        time.sleep(0.1)
    return found


def launch(ec2, keys, **options):
    """A running instance as its description says."""
    host_key = "".join(f"    {line}\n" for line in (keys / "host").read_text().splitlines())
    user_data = f"#cloud-config\nssh_deletekeys: true\nssh_keys:\n  ed25519_private: |\n{host_key}"
    user_data += f"  ed25519_public: {(keys / 'host.pub').read_text()}"
    if not ec2.describe_key_pairs()["KeyPairs"]:
        ec2.import_key_pair(KeyName="run", PublicKeyMaterial=(keys / "login.pub").read_bytes())
    made = ec2.run_instances(
        ImageId=ec2.describe_images()["Images"][0]["ImageId"], MinCount=1, MaxCount=1, KeyName="run",
        UserData=user_data, **({"InstanceType": "c6i.large"} | options),
    )["Instances"][0]  # fmt: skip
    return wait(lambda: described(ec2, made["InstanceId"], "running"))


def described(ec2, instance_id, state):
    row = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
    return row if row["State"]["Name"] == state else None


def ssh(keys, instance, command, stdin=""):
    """As the play does: the login key, and no host key but the one that was pinned."""
    known = keys / "known_hosts"
    known.write_text(f"{instance['PublicIpAddress']} {(keys / 'host.pub').read_text()}")
    options = [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes", "BatchMode=yes", "IdentitiesOnly=yes"]
    done = subprocess.run(
        ["ssh", "-i", keys / "login", *(part for one in options for part in ("-o", one)),
         f"admin@{instance['PublicIpAddress']}", command],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def attach(ec2, instance, volume, device="/dev/sdf"):
    ec2.attach_volume(InstanceId=instance["InstanceId"], VolumeId=volume["VolumeId"], Device=device)
    name = f"nvme-Amazon_Elastic_Block_Store_{volume['VolumeId'].replace('-', '')}"
    return f"/dev/disk/by-id/{name}"


def test_an_instance_is_a_host_with_the_pinned_key_its_role_and_its_disks(fleet, endpoint, keys):
    iam, west = client(endpoint, "iam"), client(endpoint, region="us-west-2")
    iam.create_role(RoleName="trainer-r", AssumeRolePolicyDocument=str(TRUST).replace("'", '"'))
    iam.create_instance_profile(InstanceProfileName="trainer-r")
    iam.add_role_to_instance_profile(InstanceProfileName="trainer-r", RoleName="trainer-r")
    instance = launch(west, keys, IamInstanceProfile={"Name": "trainer-r"})
    assert ssh(keys, instance, "sudo id -un") == "root"

    copy = west.copy_snapshot(SourceRegion="us-east-1", SourceSnapshotId="snap-given")["SnapshotId"]
    zone = instance["Placement"]["AvailabilityZone"]
    volume = west.create_volume(AvailabilityZone=zone, SnapshotId=copy, Size=2)
    disk = attach(west, instance, volume)
    ssh(keys, instance, f"until test -e {disk}; do sleep 0.1; done")
    assert ssh(keys, instance, f"sudo blkid -o value -s LABEL {disk}; sudo blockdev --getsize64 {disk}").split() == [
        "pictures", str(2 << 30),
    ]  # fmt: skip

    ssh(keys, instance, f"sudo mount {disk} /mnt && echo found | sudo tee /mnt/note && sudo umount /mnt")
    kept = west.create_snapshot(VolumeId=volume["VolumeId"])["SnapshotId"]
    second = west.create_volume(AvailabilityZone=zone, SnapshotId=kept)
    west.detach_volume(VolumeId=volume["VolumeId"])
    wait(lambda: ssh(keys, instance, f"test -e {disk} || echo gone"))
    disk = attach(west, instance, second)
    ssh(keys, instance, f"until test -e {disk}; do sleep 0.1; done; sudo mount {disk} /mnt")
    assert ssh(keys, instance, "cat /mnt/note") == "found"

    told = json.loads(ssh(keys, instance, "python3 -", LOOK))
    assert (told["roles"], told["instance"]) == ("trainer-r", instance["InstanceId"])
    assert "AWS_ENDPOINT_URL" in ssh(keys, instance, "sudo systemd-run -q --wait --pipe env")
    assert told["states"] == ["running"]


def test_a_machine_that_powers_itself_off_ends_its_instance(fleet, endpoint, keys):
    east = client(endpoint)
    instance = launch(east, keys, InstanceInitiatedShutdownBehavior="terminate")
    ssh(keys, instance, "sudo systemd-run --on-active=0.1 systemctl poweroff")
    ended = wait(lambda: described(east, instance["InstanceId"], "terminated"))
    assert ended["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    wait(lambda: instance["InstanceId"] not in fleet.by_id)


def test_an_interrupted_machine_gets_a_notice_and_then_no_time_at_all(fleet, endpoint, keys):
    east = client(endpoint)
    market = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
    instance = launch(east, keys, InstanceType="m3.medium", InstanceMarketOptions=market)
    volume = east.create_volume(AvailabilityZone=instance["Placement"]["AvailabilityZone"], Size=1)
    attach(east, instance, volume)
    ssh(keys, instance, "until test -e /dev/xvdf; do sleep 0.1; done")  # a type on Xen
    machine = fleet.by_id[instance["InstanceId"]]
    inside = [Path(f"/proc/{pid}") for pid in network.call("ip", "netns", "pids", machine.host.name).split()]
    fleet.interrupt(instance["InstanceId"], seconds=1)
    assert b"terminate" in machine.metadata.answers["/latest/meta-data/spot/instance-action"][1]
    assert machine.runs
    ended = wait(lambda: described(east, instance["InstanceId"], "terminated"))
    assert ended["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    wait(lambda: not machine.host.directory.exists())
    assert inside
    wait(lambda: not any(path.exists() for path in inside))
    assert east.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"][0]["State"] == "available"
