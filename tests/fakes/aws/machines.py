"""What a machine behind each instance needs to know, and how it tells that it runs: for real hosts in their place."""

import json
from typing import Any

from moto.ec2.models import instance_types

from . import instances
from .addresses import is_allowed
from .world import world


def machines(_: str) -> dict[str, list[dict[str, Any]]]:
    """Every instance with its image, user data, login key, role and volumes; volumes, snapshots and images with their
    sources."""
    regions = [instances.backend(region) for region in world().scenario.region_names()]
    return {
        "instances": [_instance_row(one) for ec2 in regions for one in ec2.all_instances()],
        "volumes": [_volume_row(one) for ec2 in regions for one in ec2.volumes.values()],
        "snapshots": [_snapshot_row(one) for ec2 in regions for one in ec2.snapshots.values()],
        "images": [_image_row(one) for ec2 in regions for one in ec2.amis.values() if _is_made(one)],
    }


def _instance_row(instance: Any) -> dict[str, Any]:
    ec2 = instance.ec2_backend
    key = ec2.key_pairs.get(instance.key_name)
    association = ec2.iam_instance_profile_associations.get(instance.id)
    roles = association.iam_instance_profile.roles if association else []
    return {
        "id": instance.id,
        "state": instance.state,
        "region": instance.region_name,
        "zone": instance.availability_zone,
        "image": instance.image_id,
        "instance_type": instance.instance_type,
        "hypervisor": instance_types.INSTANCE_TYPES[instance.instance_type]["Hypervisor"],
        "user_data": instance.user_data.decode() if instance.user_data else "",
        "login_key": key.material_public.decode() if key else "",
        "role": roles[0].name if roles else "",
        "volumes": {
            device.volume_id: name
            for name, device in instance.block_device_mapping.items()
            if not _is_root(name, instance)
        },
    }


def _is_root(device: str, instance: Any) -> bool:
    """A launch that says nothing of disks has one that moto calls /dev/sda1, whatever its image calls it."""
    return device in (instance.root_device_name, "/dev/sda1")


def _volume_row(volume: Any) -> dict[str, Any]:
    attachment = volume.attachment
    root = bool(attachment) and _is_root(attachment.device, attachment.instance)
    return {"id": volume.id, "size_gib": volume.size, "snapshot": volume.snapshot_id or "", "root": root}


def _snapshot_row(snapshot: Any) -> dict[str, Any]:
    return {"id": snapshot.id, "volume": snapshot.volume.id, "copied_from": getattr(snapshot, "copied_from", "")}


def _is_made(image: Any) -> bool:
    """Unlike those that were there from the start."""
    return bool(image.instance_id or image.copied_from)


def _image_row(image: Any) -> dict[str, Any]:
    return {"id": image.id, "instance": image.instance_id, "copied_from": image.copied_from}


def booted(body: str) -> dict[str, str]:
    """The machine of a pending instance runs, at that address."""
    asked = json.loads(body)
    if not is_allowed(asked["address"]):
        raise ValueError(f"address must be a loopback or test-net address, got {asked['address']}")
    instance = instances.find(asked["instance"])
    card = instance.nics[0]
    card.private_ip_address = card.private_ip_addresses[0]["PrivateIpAddress"] = asked["address"]
    if card.public_ip:
        card.public_ip = asked["address"]
    if instance.state == "pending":
        instances.set_state(instance, "running", 16)
    return {"state": instance.state}
