"""Role machine_image and playbooks/image.yml against the double of AWS."""

import json
import os

import pytest
from ansible.module_utils.image_rules import Refused, choose, other_disks
from permissions import allowed, document

from tests.fakes.aws.clients import client

MARKET = {
    "offers": [
        {"region": region, "instance_types": ["g4dn.xlarge"], "on_demand_usd_per_hour": 0.5}
        for region in ("us-east-1", "us-west-2")
    ],
    "images": [{"id": "ami-1", "region": "us-east-1"}],
    "timing": [{"image": 12, "copying": 3}],
}  # fmt: skip
OWNED = {"kit": "image-trainer", "run": "trainer-1", "Name": "trainer-1"}
BY_THE_INVENTORY = {"Statement": [{"Effect": "Allow", "Action": "ec2:DescribeRegions", "Resource": "*"}]}
TAGS = {"kit": "image-trainer", "kit_version": "0.2.0", "architecture": "x86_64", "driver_branch": "535"}


def row(state, name="ami-1", reason=""):
    return {"id": name, "state": state, "reason": reason}


@pytest.mark.parametrize(
    ("rows", "made_id", "chosen"),
    [
        ([], "", None), ([row("available")], "", "ami-1"), ([row("pending")], "", "ami-1"),
        ([row("failed")], "", None), ([row("failed"), row("pending", "ami-2")], "ami-2", "ami-2"),
        ([row("deregistered")], "", None),
    ],
)  # fmt: skip
def test_the_image_is_the_one_that_is_there_or_on_its_way(rows, made_id, chosen):
    assert (choose(rows, made_id) or {}).get("id") == chosen


@pytest.mark.parametrize(
    ("rows", "made_id", "words"),
    [
        ([row("available"), row("pending", "ami-2")], "", r"got ami-1 \(available\), ami-2 \(pending\)"),
        ([row("failed", reason="Client.InternalError")], "ami-1", "ami-1 failed, AWS says: Client.InternalError"),
    ],
)
def test_several_and_a_failed_one_are_refused_in_words(rows, made_id, words):
    with pytest.raises(Refused, match=words):
        choose(rows, made_id)


def test_only_the_root_volume_goes_into_an_image():
    disks = [{"DeviceName": name} for name in ("/dev/sdf", "/dev/xvda", "/dev/sdg")]
    instance = {"InstanceId": "i-1", "RootDeviceName": "/dev/xvda", "BlockDeviceMappings": disks}
    assert other_disks(instance) == ["/dev/sdf", "/dev/sdg"]
    with pytest.raises(Refused, match="i-1 has no root volume /dev/sda1"):
        other_disks(instance | {"RootDeviceName": "/dev/sda1"})


@pytest.fixture
def bake(play):
    """`bake(instance, "--check", name=value)` plays the role's controller part."""

    def run(instance_id, *options, entry="keep", **settings):
        wanted = {
            "entry": entry, "machine_image_region": "us-east-1", "machine_image_instance_id": instance_id,
            "machine_image_tags": TAGS, "machine_image_copy_regions": ["us-west-2"],
            "__machine_image_poll_seconds": 3,
        } | settings  # fmt: skip
        return play("../tests/aws/image_play.yml", json.dumps(wanted), *options)

    return run


@pytest.fixture
def endpoint_of():
    return lambda: os.environ["AWS_ENDPOINT_URL"]


def launched(endpoint):
    """A running instance with a data volume."""
    ec2 = client(endpoint)
    made = ec2.run_instances(
        ImageId="ami-1", MinCount=1, MaxCount=1, InstanceType="g4dn.xlarge",
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 40}}],
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "kit", "Value": "image-trainer"}]}],
    )["Instances"][0]  # fmt: skip
    ec2.get_waiter("instance_running").wait(InstanceIds=[made["InstanceId"]], WaiterConfig={"Delay": 1})
    volume = ec2.create_volume(AvailabilityZone=made["Placement"]["AvailabilityZone"], Size=100)["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig={"Delay": 1})
    ec2.attach_volume(InstanceId=made["InstanceId"], VolumeId=volume, Device="/dev/sdf")
    return made["InstanceId"]


def images(endpoint, region):
    rows = client(endpoint, region=region).describe_images(Owners=["self"])["Images"]
    return [row for row in rows if any(tag["Key"] == "kit" for tag in row.get("Tags", []))]


def test_an_image_is_made_once_of_the_root_volume_alone_and_copied_once(aws, bake, endpoint_of, calls):
    with aws(MARKET | {"policies": {"double": [document("image"), BY_THE_INVENTORY]}}):
        instance = launched(endpoint_of())
        before = len(calls())
        predicted = bake(instance, "--check")
        assert predicted.returncode == 0, predicted.stdout
        assert images(endpoint_of(), "us-east-1") == []
        done = bake(instance)
        assert done.returncode == 0, done.stdout
        for words in ("waiting for image ami-", "to be available: ", "%"):
            assert words in done.stdout
        [image], [copy] = images(endpoint_of(), "us-east-1"), images(endpoint_of(), "us-west-2")
        assert image["State"] == copy["State"] == "available"
        assert [disk["DeviceName"] for disk in image["BlockDeviceMappings"]] == [image["RootDeviceName"]]
        for one in (image, copy):
            tags = {tag["Key"]: tag["Value"] for tag in one["Tags"]}
            assert tags.items() >= TAGS.items()
            assert len(tags["kit_image"]) == 12
            assert one["Name"].startswith("image-trainer x86_64 535 ")
        again = bake(instance)
        assert "changed=0" in again.stdout
        assert len(images(endpoint_of(), "us-east-1")) == 1
    [made] = [call for call in calls() if call["action"] == "CreateImage"]
    assert made["parameters"]["NoReboot"] in (True, "true")
    assert {action for call in calls()[before:] for action in call["iam"]} - {"ec2:DescribeRegions"} == allowed("image")


@pytest.mark.slow
def test_a_lost_answer_makes_no_second_image(aws, bake, endpoint_of):
    lost = {"faults": [{"action": "CreateImage", "codes": ["lost"]}]}
    with aws(MARKET | lost):
        instance = launched(endpoint_of())
        bake(instance, machine_image_copy_regions=[])
        again = bake(instance, machine_image_copy_regions=[])
        assert again.returncode == 0, again.stdout
        assert len(images(endpoint_of(), "us-east-1")) == 1


def states(endpoint):
    groups = client(endpoint).describe_instances()["Reservations"]
    return [row["State"]["Name"] for group in groups for row in group["Instances"]]


def test_only_the_machine_that_was_sealed_is_returned(aws, bake, play, endpoint_of, tmp_path):
    """A play that was ended in between leaves its note behind, and train.yml may have rented another machine since."""
    note = tmp_path / "sealed"
    (tmp_path / "ssh").mkdir()
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / "ssh" / name).touch()
    settings = {
        "machine_image_tags": TAGS, "run_directory": str(tmp_path), "__machine_image_poll_seconds": 3,
        "checkpoint_mirror_enabled": False, "spot_instance_ssh_cidr": "192.0.2.7/32",
    }  # fmt: skip
    with aws(MARKET):
        instance = launched(endpoint_of())
        tags = [{"Key": key, "Value": value} for key, value in OWNED.items()]
        client(endpoint_of()).create_tags(Resources=[instance], Tags=tags)
        assert bake(instance, machine_image_copy_regions=[]).returncode == 0
        for sealed, state in (("i-0123456789abcdef0", "running"), (instance, "terminated")):
            note.write_text(f"{sealed}\n")
            done = play("image.yml", json.dumps(settings), "--limit=trainer-1")
            assert done.returncode == 0, done.stdout
            assert states(endpoint_of()) == [state]
            ledger = json.loads((tmp_path / "ledger.json").read_text())["rows"].values()
            assert [row["id"] for row in ledger if row["kind"] == "instance"] == [instance]
            assert not note.exists()
