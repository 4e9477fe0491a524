#!/usr/bin/python
"""A volume attached to an instance, and what becomes of it when the instance ends. One look."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.volume_rules import choose_device, obstacle
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: volume_attachment
short_description: Attach a volume to an instance
description:
  - Looks once, does what can be done, and returns; whoever calls it waits.
  - Returns C(device) (the attachment's name); C(waiting_for) in words while there is more to come.
options:
  region: {type: str, required: true, description: Where both are.}
  volume_id: {type: str, required: true, description: The volume.}
  instance_id: {type: str, required: true, description: The instance.}
  device: {type: str, default: "", description: "The attachment's name; empty for the first free one from /dev/sdf."}
  delete_on_termination: {type: bool, required: true, description: Whether it ends with its instance.}
author: The authors of this project
"""
OPTIONS = {
    "region": {"type": "str", "required": True},
    "volume_id": {"type": "str", "required": True},
    "instance_id": {"type": "str", "required": True},
    "device": {"type": "str", "default": ""},
    "delete_on_termination": {"type": "bool", "required": True},
}
# The volume or the instance is not ready, or no longer: the next look says which.
LOOK_AGAIN = {"IncorrectState", "VolumeInUse", "InvalidInstanceID.NotFound", "InvalidVolume.NotFound"}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    attempt = f"attach {module.params['volume_id']} to {module.params['instance_id']}"
    try:
        look(module, attempt)
    except (ValueError, *calls.FAILURES) as error:
        reason = error if isinstance(error, ValueError) else calls.in_words(error)
        module.fail_json(msg=f"Failed to {attempt}: {reason}")


def look(module, attempt):
    wanted, ec2 = module.params, calls.make_client("ec2", module.params["region"])
    instance = calls.instance(ec2, wanted["instance_id"])
    if instance["state"] not in ("pending", "running"):
        gone = f"the instance is {instance['state']}; run again: it launches another"
        module.fail_json(msg=f"Failed to {attempt}: {gone}")
    [volume] = calls.volumes(ec2, VolumeIds=[wanted["volume_id"]]) or [None]
    if not volume:
        wait(module, f"{wanted['volume_id']} to be seen")
    held = volume["attachment"]
    holder = held.get("instance_id", wanted["instance_id"])
    state = instance["state"] if holder == wanted["instance_id"] else calls.instance(ec2, holder)["state"]
    what, why = obstacle(volume, wanted["instance_id"], state)
    if what == "fail":
        module.fail_json(msg=f"Failed to {attempt}: {why}")
    if what == "wait" or (not held and instance["state"] == "pending"):
        wait(module, why or f"{wanted['instance_id']} to run")
    if not held:
        attach(module, ec2, choose_device(instance["devices"], wanted["device"]))
    if held["state"] == "attaching":
        wait(module, f"{wanted['volume_id']} to be attached at {held['device']}")
    set_end(module, ec2, held)


def wait(module, words, changed=False):
    module.exit_json(changed=changed, waiting_for=f"waiting for {words}")


def attach(module, ec2, device):
    if module.check_mode:
        module.exit_json(changed=True, device=device)
    what = {"VolumeId": module.params["volume_id"], "InstanceId": module.params["instance_id"], "Device": device}
    try:
        ec2.attach_volume(**what)
    except calls.ClientError as error:
        if calls.code_of(error) not in LOOK_AGAIN:
            raise
        wait(module, f"AWS, which says {calls.in_words(error)}")
    wait(module, f"{what['VolumeId']} to be attached at {device}", changed=True)


def set_end(module, ec2, held):
    wanted = module.params["delete_on_termination"]
    differs = held["delete_on_termination"] != wanted
    if differs and not module.check_mode:
        mapping = {"DeviceName": held["device"], "Ebs": {"DeleteOnTermination": wanted}}
        ec2.modify_instance_attribute(InstanceId=module.params["instance_id"], BlockDeviceMappings=[mapping])
    module.exit_json(changed=differs, device=held["device"])


if __name__ == "__main__":
    main()
