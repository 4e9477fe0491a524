"""Machine images: made from an instance, copied to a region, available after a while; with their snapshots."""

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.amis import Ami
from moto.ec2.responses import EC2Response
from moto.ec2.utils import random_ami_id

from . import snapshots
from .instances import backend
from .world import world


def patch_images() -> None:
    Ami.size_gib = 8
    Ami.block_device_mappings = property(
        lambda self: [
            {
                "DeviceName": self.root_device_name,
                "Ebs": {
                    "SnapshotId": self.ebs_snapshot.id,
                    "VolumeSize": self.size_gib,
                    "DeleteOnTermination": True,
                    "VolumeType": "gp3",
                    "Encrypted": bool(self.ebs_snapshot.encrypted),
                },
            },
            *({"DeviceName": name, "Ebs": {"VolumeSize": size}} for name, size in self.data_disks.items()),
        ]
    )
    Ami.data_disks = {}
    Ami.copied_from = ""


def make_image(region: str, image_id: str, name: str, **options: Any) -> Ami:
    """An image with its snapshot in a region; options are those of moto's Ami, and size_gib."""
    size_gib = options.pop("size_gib", 8)
    options = {"root_device_type": "ebs", "root_device_name": "/dev/xvda", "virtualization_type": "hvm"} | options
    ec2 = backend(region)
    image = Ami(ec2, image_id, name=name, region_name=ec2.describe_availability_zones()[0].name, **options)
    image.size_gib = image.ebs_snapshot.volume.size = size_gib
    ec2.amis[image_id] = image
    return image


def create_image(call: EC2Response) -> dict[str, Any]:
    call.error_on_dryrun()
    instance = call.ec2_backend.get_instance(call._get_param("InstanceId"))
    _check_name(call)
    left_out = [one["DeviceName"] for one in call._get_param("BlockDeviceMappings", []) if "NoDevice" in one]
    disks = {name: one.size for name, one in instance.block_device_mapping.items() if name not in left_out}
    root = disks.pop(instance.root_device_name, None)
    image = make_image(
        call.region,
        random_ami_id(),
        call._get_param("Name"),
        description=call._get_param("Description", ""),
        architecture=instance.architecture,
        size_gib=root or 8,
    )
    image.data_disks, image.instance_id = disks, instance.id
    _start(call, image, world().timing(call.region).image)
    return {"ImageId": image.id}


def copy_image(call: EC2Response) -> dict[str, Any]:
    call.error_on_dryrun()
    source = backend(call._get_param("SourceRegion")).describe_images(ami_ids=[call._get_param("SourceImageId")])[0]
    if source.state != "available":
        raise EC2ClientError("InvalidAMIID.Unavailable", f"The image {source.id} is {source.state}")
    image = make_image(
        call.region,
        random_ami_id(),
        call._get_param("Name"),
        description=call._get_param("Description", source.description),
        architecture=source.architecture,
        size_gib=source.size_gib,
    )
    image.copied_from = source.id
    if call._get_param("CopyImageTags", False):
        image.add_tags({tag["key"]: tag["value"] for tag in source.get_tags()})
    _start(call, image, world().timing(call.region).copying, call._get_param("SourceRegion"))
    return {"ImageId": image.id}


def _check_name(call: EC2Response) -> None:
    for image in call.ec2_backend.amis.values():
        if image.name == call._get_param("Name"):
            text = f"AMI name {image.name} is already in use by AMI {image.id}"
            raise EC2ClientError("InvalidAMIName.Duplicate", text)


def _start(call: EC2Response, image: Ami, seconds: float, source: str = "") -> None:
    tags = call._parse_tag_specification()
    image.add_tags(tags.get("image", {}))
    image.ebs_snapshot.add_tags(tags.get("snapshot", {}))
    image.state = "pending"
    snapshots.pending(image.ebs_snapshot, seconds, "completed", source=source)
    world().later(seconds, lambda: setattr(image, "state", "available"))
