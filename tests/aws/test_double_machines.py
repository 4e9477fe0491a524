"""What the double tells of its instances to whoever puts real machines behind them, and what it believes of them."""

import urllib.error

import pytest
from double_market import control, double, find, launch

from tests.fakes.aws.clients import client

HELD = {"timing": [{"pending": "forever"}]}


def test_an_instance_runs_when_its_machine_does_at_the_machine_s_address():
    with double(**HELD) as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2, UserData="#cloud-config\n", name="t3.micro")["InstanceId"]
        assert find(ec2, made)["State"]["Name"] == "pending"
        control(endpoint, "booted", {"instance": made, "address": "198.51.100.7"})
        found = find(ec2, made)
    assert (found["State"]["Name"], found["PublicIpAddress"]) == ("running", "198.51.100.7")
    assert found["PrivateIpAddress"] == "198.51.100.7"


@pytest.mark.parametrize("address", ["8.8.8.8", "10.0.0.1"])
def test_an_address_that_leads_elsewhere_is_refused(address):
    with double(**HELD) as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2)["InstanceId"]
        with pytest.raises(urllib.error.HTTPError, match="400"):
            control(endpoint, "booted", {"instance": made, "address": address})
        assert find(ec2, made)["State"]["Name"] == "pending"


def test_machines_are_told_what_their_instances_and_disks_are_made_of():
    with double() as endpoint:
        ec2 = client(endpoint)
        made = launch(ec2, UserData="#cloud-config\n", name="t3.micro")["InstanceId"]
        volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=2)["VolumeId"]
        ec2.attach_volume(InstanceId=made, VolumeId=volume, Device="/dev/sdf")
        snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
        copy = ec2.copy_snapshot(SourceRegion="us-east-1", SourceSnapshotId=snapshot)["SnapshotId"]
        image = ec2.create_image(InstanceId=made, Name="made")["ImageId"]
        image_copy = ec2.copy_image(SourceRegion="us-east-1", SourceImageId=image, Name="copied")["ImageId"]
        told = control(endpoint, "machines")
    assert told["images"] == [
        {"id": image, "instance": made, "copied_from": ""}, {"id": image_copy, "instance": None, "copied_from": image},
    ]  # fmt: skip
    [instance] = told["instances"]
    assert (instance["user_data"], instance["volumes"]) == ("#cloud-config\n", {volume: "/dev/sdf"})
    assert (instance["hypervisor"], instance["image"][:4]) == ("nitro", "ami-")
    sources = {row["id"]: (row["volume"], row["copied_from"]) for row in told["snapshots"]}
    assert sources[snapshot] == (volume, "")
    assert sources[copy][1] == snapshot
    assert {row["id"]: row["root"] for row in told["volumes"]}[volume] is False
