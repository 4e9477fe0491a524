"""A controller that is killed right after AWS has made something: the next run finds it and makes no other."""

import pytest
from test_data_volume_disk import SAVED, kept_volume, wanted
from test_data_volume_snapshot import QUESTION
from volume_plays import MARKET, ec2, launch
from volume_steps import drive, load, look

IMAGE = {"region": "us-east-1", "name": "image-trainer x", "tags": {"kit": "image-trainer", "kit_image": "1"}}
SHAPES = {"kit": "image-trainer", "dataset": "shapes"}
SET = {"region": "us-east-1", "tags": SHAPES, "made_from": "s3://b", "wait": True}


def machine():
    """A running instance with a root volume of its own."""
    made = ec2().run_instances(
        ImageId="ami-1", InstanceType="t3.micro", MinCount=1, MaxCount=1,
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 40}}],
    )["Instances"][0]["InstanceId"]  # fmt: skip
    ec2().describe_instances()
    return made


def image_to_copy():
    made = ec2().create_image(InstanceId=machine(), Name="source", NoReboot=True)["ImageId"]
    ec2().get_waiter("image_available").wait(ImageIds=[made], WaiterConfig={"Delay": 1})
    return made


MAKERS = {
    "CopySnapshot": ("data_snapshot", "data_volume", lambda: QUESTION),
    "CreateVolume": ("run_volume", "data_volume", lambda: wanted(launch())),
    "CreateSnapshot": ("data_set_snapshot", "data_set", lambda: SET | {"volume_id": kept_volume("us-east-1a")}),
    "CreateSnapshot of a kept volume": ("volume_saved", "data_volume", lambda: kept_volume("us-east-1b") and SAVED),
    "CreateImage": ("machine_image", "machine_image", lambda: IMAGE | {"instance_id": machine()}),
    "CopyImage": (
        "machine_image", "machine_image",
        lambda: IMAGE | {"region": "eu-west-1", "source_id": image_to_copy(), "source_region": "us-east-1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MAKERS)
def test_the_next_run_finds_what_the_killed_one_had_made(aws, calls, capsys, what):
    module, role, arguments = MAKERS[what]
    timing = dict.fromkeys(("copying", "snapshot", "volume", "image"), 0.3)
    action = what.split()[0]
    with aws(MARKET | {"timing": [timing]}):
        asked = arguments()
        while not (made := look(load(module, role), capsys, asked)).get("changed"):
            assert "waiting" in made.get("waiting_for", ""), made  # until what it is made from is there
        assert "waiting_for" in made, made
        found = drive(load(module, role), capsys, asked)
    assert (found["changed"], found.get("failed", False)) == (False, False), found
    [asked_for] = [call for call in calls() if call["action"] == action]
    assert any(key.startswith("TagSpecification") for key in asked_for["parameters"]), "tags in the same call"
