#!/usr/bin/python
"""A machine image in a region: there, on its way, made from an instance, or copied from another region. One look."""

import hashlib

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.image_rules import Refused, choose, other_disks
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: machine_image
short_description: Make sure that a region has a machine image
description:
  - Looks once for the image with all the tags, starts it when there is none, and returns; whoever calls it waits.
  - Only the instance's root volume goes into an image. Without an instance and without a source it only looks.
  - Returns C(image_id) (empty when there is none), C(state); C(waiting_for) in words and C(next) until it is available.
options:
  region: {type: str, required: true, description: Where the image is to be.}
  name: {type: str, required: true, description: "Its name, which AWS gives to one image only."}
  tags: {type: dict, required: true, description: What it holds; by these tags it is found.}
  instance_id: {type: str, default: "", description: The instance to make it from.}
  source_id: {type: str, default: "", description: The image to copy.}
  source_region: {type: str, default: "", description: Where that one is.}
  made_id: {type: str, default: "", description: The image that an earlier look has found or started.}
author: The authors of this project
"""
OPTIONS = {
    "region": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "tags": {"type": "dict", "required": True},
    "instance_id": {"type": "str", "default": ""},
    "source_id": {"type": "str", "default": ""},
    "source_region": {"type": "str", "default": ""},
    "made_id": {"type": "str", "default": ""},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    try:
        look(module, calls.make_client("ec2", module.params["region"]))
    except Refused as error:
        module.fail_json(msg=f"Failed to get the image {module.params['name']}: {error}")
    except calls.FAILURES as error:
        module.fail_json(msg=f"Failed to get the image {module.params['name']}: {calls.in_words(error)}")


def look(module, ec2):
    wanted, made_id = module.params, module.params["made_id"]
    there = choose(images(ec2, wanted), made_id)
    if there:
        tell(module, ec2, there)
    if made_id:
        wait(module, made_id, f"image {made_id} to be seen")
    if not (wanted["instance_id"] or wanted["source_id"]):
        module.exit_json(changed=False, image_id="", state="none")
    if module.check_mode:
        module.exit_json(changed=True, image_id="", state="none")
    made_id = make(ec2, wanted) if wanted["instance_id"] else copy(ec2, wanted)
    wait(module, made_id, f"image {made_id} ({wanted['name']})", changed=True)


def images(ec2, wanted):
    """{"id", "state", "reason", "snapshot_id"} of the images with the tags, whoever made them in this account."""
    pages = ec2.get_paginator("describe_images").paginate(Owners=["self"], Filters=calls.tag_filters(wanted["tags"]))
    return [
        {
            "id": row["ImageId"], "state": row["State"], "reason": row.get("StateReason", {}).get("Message", ""),
            "snapshot_id": next((d["Ebs"].get("SnapshotId") for d in row["BlockDeviceMappings"] if "Ebs" in d), None),
        }
        for page in pages for row in page["Images"]
    ]  # fmt: skip


def tell(module, ec2, image):
    facts = {"image_id": image["id"], "state": image["state"]}
    if image["state"] == "available" or not (module.params["instance_id"] or module.params["source_id"]):
        module.exit_json(changed=False, **facts)
    rows = calls.snapshots(ec2, SnapshotIds=[image["snapshot_id"]]) if image["snapshot_id"] else []
    progress = rows[0]["progress"] if rows else ""
    wait(module, image["id"], f"image {image['id']} to be available: {progress or '0%'}", **facts)


def wait(module, made_id, words, changed=False, **facts):
    module.exit_json(changed=changed, waiting_for=f"waiting for {words}", next={"made_id": made_id}, **facts)


def make(ec2, wanted):
    """Without a reboot: an instance that ends when it is shut down would be gone. Asked twice, its name is taken."""
    [row] = ec2.describe_instances(InstanceIds=[wanted["instance_id"]])["Reservations"][0]["Instances"]
    return ec2.create_image(
        InstanceId=wanted["instance_id"], Name=wanted["name"], NoReboot=True,
        BlockDeviceMappings=[{"DeviceName": name, "NoDevice": ""} for name in other_disks(row)],
        TagSpecifications=tagged(wanted),
    )["ImageId"]


def copy(ec2, wanted):
    token = hashlib.sha256(f"{wanted['source_id']} {wanted['region']} {wanted['name']}".encode()).hexdigest()
    return ec2.copy_image(
        SourceImageId=wanted["source_id"], SourceRegion=wanted["source_region"], Name=wanted["name"], Encrypted=True,
        ClientToken=token, TagSpecifications=tagged(wanted),
    )["ImageId"]


def tagged(wanted):
    tags = calls.tag_list(wanted["tags"] | {"Name": wanted["name"]})
    return [{"ResourceType": kind, "Tags": tags} for kind in ("image", "snapshot")]


if __name__ == "__main__":
    main()
