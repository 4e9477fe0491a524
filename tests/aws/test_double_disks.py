"""Volumes, snapshots and images of the double."""

import pytest
from double_market import BASE, control, double, find, launch

from tests.fakes.aws.clients import client, code_of

SNAPSHOTS = [
    {"id": "snap-plain", "region": "eu-west-1", "size_gib": 150, "tags": {"dataset": "imagenet"}},
    {"id": "snap-locked", "region": "eu-west-1", "size_gib": 150, "encrypted": True, "kms_key": "mine"},
    {"id": "snap-own", "region": "us-east-1", "size_gib": 100},
    {"id": "snap-unfinished", "region": "us-east-1", "size_gib": 100, "state": "pending"},
    {"id": "snap-growing", "region": "eu-west-1", "size_gib": 100, "state": "pending"},
]
KEYS = [
    {"name": "mine", "region": "eu-west-1"},
    {"name": "theirs", "region": "us-east-1"},
    {"name": "off", "region": "us-east-1", "enabled": False},
]


def disks(**changes):
    return double(snapshots=SNAPSHOTS, keys=KEYS, **changes)


def volume_of(ec2, volume_id):
    return ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]


def make_volume(ec2, zone="us-east-1a", **options):
    return ec2.create_volume(AvailabilityZone=zone, **({"Size": 10} | options))["VolumeId"]


def test_a_volume_is_attached_once_in_its_own_zone_and_detached():
    with disks() as endpoint:
        ec2 = client(endpoint)
        near, far = launch(ec2)["InstanceId"], launch(ec2, zone="us-east-1b")["InstanceId"]
        volume = make_volume(ec2)
        attach = {"VolumeId": volume, "Device": "/dev/sdf"}
        assert code_of(ec2.attach_volume, InstanceId=far, **attach) == "InvalidVolume.ZoneMismatch"
        assert ec2.attach_volume(InstanceId=near, **attach)["State"] == "attaching"
        assert volume_of(ec2, volume)["Attachments"][0]["State"] == "attached"
        assert volume_of(ec2, volume)["MultiAttachEnabled"] is False
        assert code_of(ec2.attach_volume, InstanceId=near, **attach) == "VolumeInUse"
        assert code_of(ec2.delete_volume, VolumeId=volume) == "VolumeInUse"
        other = make_volume(ec2)
        taken = code_of(ec2.attach_volume, VolumeId=other, InstanceId=near, Device="/dev/sdf")
        assert taken == "InvalidParameterValue"
        assert ec2.detach_volume(VolumeId=volume)["State"] == "detaching"
        assert volume_of(ec2, volume)["State"] == "available"
        assert code_of(ec2.delete_volume, VolumeId=volume) == ""


@pytest.mark.parametrize(("options", "code"), [
    ({"Throughput": 750}, ""), ({"Throughput": 751}, "InvalidParameterCombination"),
    ({"Throughput": 1000, "Iops": 4000}, ""), ({"Size": 1, "Iops": 3000}, ""),
    ({"Size": 7, "Iops": 4000}, "InvalidParameterCombination"),
])  # fmt: skip
def test_a_volume_s_speed_has_the_limits_of_gp3(options, code):
    with disks() as endpoint:
        asked = {"AvailabilityZone": "us-east-1a", "VolumeType": "gp3", "Size": 10} | options
        assert code_of(client(endpoint).create_volume, **asked) == code


def test_a_lost_answer_makes_no_second_volume():
    with disks(faults=[{"action": "CreateVolume", "codes": ["lost"]}]) as endpoint:
        ec2 = client(endpoint, attempts=2)
        made = make_volume(ec2)
        assert [row["VolumeId"] for row in ec2.describe_volumes()["Volumes"]] == [made]


@pytest.mark.parametrize(
    ("timing", "state"),
    [({"volume": "forever"}, "creating"), ({"volume_ends": "error"}, "error"), ({}, "available")],
)
def test_a_volume_takes_time_or_fails(timing, state):
    with disks(timing=[timing]) as endpoint:
        ec2 = client(endpoint)
        volume, instance = make_volume(ec2), launch(ec2)["InstanceId"]
        assert volume_of(ec2, volume)["State"] == state
        code = code_of(ec2.attach_volume, VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
        assert code == ("" if state == "available" else "IncorrectState")


@pytest.mark.parametrize(
    ("timing", "state"), [({"attach": "forever"}, "attaching"), ({"detach": "forever"}, "detaching")]
)
def test_a_volume_that_hangs_between_states(timing, state):
    with disks(timing=[timing]) as endpoint:
        ec2 = client(endpoint)
        volume, instance = make_volume(ec2), launch(ec2)["InstanceId"]
        ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
        ec2.describe_volumes()
        if state == "detaching":
            ec2.detach_volume(VolumeId=volume)
        [attachment] = volume_of(ec2, volume)["Attachments"]
        assert (attachment["State"], volume_of(ec2, volume)["State"]) == (state, "in-use")


@pytest.mark.parametrize(
    ("timing", "left"),
    [({"shutting_down": "forever"}, ["in-use", "in-use", "in-use"]), ({}, ["available"])],
)
def test_an_instance_holds_its_volumes_until_it_is_gone(timing, left):
    with disks(timing=[timing]) as endpoint:
        ec2 = client(endpoint)
        kept, gone, instance = make_volume(ec2), make_volume(ec2), launch(ec2)["InstanceId"]
        find(ec2, instance)
        for volume, device in ((kept, "/dev/sdf"), (gone, "/dev/sdg")):
            ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device=device)
        mapping = [{"DeviceName": "/dev/sdg", "Ebs": {"DeleteOnTermination": True}}]
        ec2.modify_instance_attribute(InstanceId=instance, BlockDeviceMappings=mapping)
        ec2.terminate_instances(InstanceIds=[instance])
        volumes = {row["VolumeId"]: row["State"] for row in ec2.describe_volumes()["Volumes"]}
        assert list(volumes.values()) == left and kept in volumes


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"SnapshotId": "snap-own", "Size": 99}, "InvalidParameterValue"),
        ({"SnapshotId": "snap-own", "Size": 100, "VolumeInitializationRate": 200}, ""),
        ({"SnapshotId": "snap-own", "Size": 100, "VolumeInitializationRate": 99}, "InvalidParameterValue"),
        ({"VolumeInitializationRate": 200}, "InvalidParameterValue"),
        ({"SnapshotId": "snap-unfinished", "Size": 100}, "IncorrectState"),
        ({"SnapshotId": "snap-plain", "Size": 150}, "InvalidSnapshot.NotFound"),
        ({"zone": "eu-west-1a"}, "InvalidZone.NotFound"),
    ],
)
def test_what_a_volume_needs(options, code):
    with disks() as endpoint:
        assert code_of(make_volume, client(endpoint), **options) == code


def test_a_cold_volume_says_how_far_it_is():
    with disks(timing=[{"initialise": "forever"}]) as endpoint:
        ec2 = client(endpoint)
        volume = make_volume(ec2, SnapshotId="snap-own", Size=100, VolumeInitializationRate=300)
        [row] = ec2.describe_volume_status(VolumeIds=[volume])["VolumeStatuses"]
        assert row["VolumeStatus"]["Status"] == "ok"
        details = row["InitializationStatusDetails"]
        assert (details["InitializationType"], details["Progress"]) == ("provisioned-rate", 0)


def copy(endpoint, snapshot="snap-plain", **options):
    ec2 = client(endpoint)
    tags = [{"ResourceType": "snapshot", "Tags": [{"Key": "run", "Value": "r1"}]}]
    options = {"SourceSnapshotId": snapshot, "SourceRegion": "eu-west-1", "TagSpecifications": tags} | options
    made = ec2.copy_snapshot(**options)["SnapshotId"]
    return ec2.describe_snapshots(SnapshotIds=[made])["Snapshots"][0]


@pytest.mark.parametrize(
    ("snapshot", "options", "state", "encrypted"),
    [
        ("snap-plain", {}, "completed", False),
        ("snap-plain", {"Encrypted": True}, "completed", True),
        ("snap-plain", {"Encrypted": True, "KmsKeyId": "alias/theirs"}, "completed", True),
        ("snap-locked", {}, "completed", True),
        ("snap-locked", {"KmsKeyId": "alias/theirs"}, "completed", True),
        ("snap-locked", {"KmsKeyId": "alias/mine"}, "error", True),
        ("snap-locked", {"KmsKeyId": "alias/off"}, "error", True),
    ],
)
def test_copies_need_a_key_of_the_region_they_go_to(snapshot, options, state, encrypted):
    with disks() as endpoint:
        made = copy(endpoint, snapshot, **options)
        assert (made["State"], made["Encrypted"], made["VolumeSize"]) == (state, encrypted, 150)
        assert made["Tags"] == [{"Key": "run", "Value": "r1"}]
        assert made.get("StateMessage", "") == ("Given key ID is not accessible" if state == "error" else "")
        assert made.get("KmsKeyId", "").startswith("arn:aws:kms:us-east-1") == (encrypted and state == "completed")


def test_copies_take_time_and_tell_progress():
    with disks(timing=[{"copying": "forever"}]) as endpoint:
        made = copy(endpoint)
        assert (made["State"], made["Progress"]) == ("pending", "0%")
        assert code_of(make_volume, client(endpoint), SnapshotId=made["SnapshotId"], Size=150) == "IncorrectState"


def test_copies_that_fail():
    with disks(timing=[{"copying_ends": "error", "copying_message": "no room"}]) as endpoint:
        assert copy(endpoint)["StateMessage"] == "no room"
        assert code_of(copy, endpoint, KmsKeyId="alias/theirs") == "InvalidParameterDependency"
        assert code_of(copy, endpoint, SourceSnapshotId="snap-0") == "InvalidSnapshot.NotFound"
        assert code_of(copy, endpoint, SourceSnapshotId="snap-growing") == "IncorrectState"


def test_fast_restore_is_enabled_after_a_while():
    with disks(timing=[{"fast_restore": "forever"}]) as endpoint:
        ec2 = client(endpoint)
        asked = {"AvailabilityZones": ["us-east-1a"], "SourceSnapshotIds": ["snap-own"]}
        ec2.enable_fast_snapshot_restores(**asked)
        [row] = ec2.describe_fast_snapshot_restores()["FastSnapshotRestores"]
        assert row["State"] == "enabling"
        ec2.disable_fast_snapshot_restores(**asked)
        assert ec2.describe_fast_snapshot_restores()["FastSnapshotRestores"] == []


def test_images_are_made_copied_and_found_with_their_snapshots():
    with disks() as endpoint:
        ec2, instance = client(endpoint), launch(client(endpoint))["InstanceId"]
        tags = [{"Key": "mxnet", "Value": "1.9.1"}]
        both = [{"ResourceType": kind, "Tags": tags} for kind in ("image", "snapshot")]
        made = ec2.create_image(InstanceId=instance, Name="kit-1", TagSpecifications=both)["ImageId"]
        [image] = ec2.describe_images(Owners=["self"], Filters=[{"Name": "tag:mxnet", "Values": ["1.9.1"]}])["Images"]
        assert (image["ImageId"], image["State"]) == (made, "available")
        snapshot = image["BlockDeviceMappings"][0]["Ebs"]["SnapshotId"]
        assert ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"][0]["Tags"] == tags
        assert code_of(ec2.create_image, InstanceId=instance, Name="kit-1") == "InvalidAMIName.Duplicate"
        west = client(endpoint, region="eu-west-1")
        source = {"SourceImageId": made, "SourceRegion": "us-east-1", "Name": "kit-1"}
        copied = west.copy_image(CopyImageTags=True, **source)["ImageId"]
        assert west.describe_images(ImageIds=[copied])["Images"][0]["Tags"] == tags
        assert "snapshot" in {row["kind"] for row in control(endpoint, "state")["eu-west-1"]}


def test_image_by_ssm_parameter():
    name = "/aws/service/debian/release/12/latest/amd64"
    with double(images=[BASE["images"][0] | {"ssm_parameter": name}]) as endpoint:
        assert client(endpoint, "ssm").get_parameter(Name=name)["Parameter"]["Value"] == "ami-1"
