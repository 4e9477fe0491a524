#!/usr/bin/python
"""A snapshot of the run's volume, unless the volume is where it is wanted. One look."""

from contextlib import suppress

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.volume_rules import ALIVE, NotOne, only, present_snapshot, split
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: volume_saved
short_description: Make sure that what a run's volume holds is in a snapshot
description:
  - Looks into every enabled region once, starts the snapshot when there is none, and returns; whoever calls it waits.
  - Returns C(snapshot_id), empty when the volume is in the zone already or when there is none at all; C(waiting_for).
options:
  zone: {type: str, default: "", description: "Where a volume needs no snapshot; empty: nowhere."}
  tags: {type: dict, required: true, description: The volume's tags.}
  snapshot_tags: {type: dict, required: true, description: "The snapshot's tags; the volume's id is added."}
  settle_seconds: {type: float, default: 30, description: How long a snapshot is looked for when its answer was lost.}
author: The authors of this project
"""
OPTIONS = {
    "zone": {"type": "str", "default": ""},
    "tags": {"type": "dict", "required": True},
    "snapshot_tags": {"type": "dict", "required": True},
    "settle_seconds": {"type": "float", "default": 30},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    attempt = "save the run's volume in a snapshot"
    try:
        look(module, attempt)
    except (NotOne, *calls.FAILURES) as error:
        reason = error if isinstance(error, NotOne) else calls.in_words(error)
        module.fail_json(msg=f"Failed to {attempt}: {reason}")


def look(module, attempt):
    wanted = module.params
    volumes = everywhere(module, attempt, lambda ec2: calls.volumes(ec2, Filters=calls.tag_filters(wanted["tags"])))
    here, _, elsewhere = split(volumes, wanted["zone"])
    if here:
        module.exit_json(changed=False, snapshot_id="")
    volume = only(elsewhere, "the run's volumes in other zones")
    snapshots = everywhere(module, attempt, lambda ec2: calls.own_snapshots(ec2, wanted["snapshot_tags"]))
    saved = [row for row in snapshots if "copy_of" not in row["tags"] and is_of(row, volume)]
    snapshot = present_snapshot(saved)
    if snapshot and snapshot["state"] == "completed":
        module.exit_json(changed=False, snapshot_id=snapshot["id"])
    if snapshot:
        module.exit_json(
            changed=False, snapshot_id=snapshot["id"],
            waiting_for=f"waiting for snapshot {snapshot['id']} to be complete: {snapshot['progress'] or '0%'}",
        )
    if not volume:
        module.exit_json(changed=False, snapshot_id="")
    if saved:
        words = f"{saved[0]['id']} failed, AWS says: {saved[0]['message']}; delete it and run again"
        module.fail_json(msg=f"Failed to {attempt}: {words}")
    save(module, attempt, volume)


def is_of(snapshot, volume):
    return not volume or snapshot["tags"].get("snapshot_of") == volume["id"]


def everywhere(module, attempt, read):
    """Rows of all regions. What a region that does not answer holds is unknown, so nothing is decided then."""
    regions = calls.enabled_regions()
    found, failed = calls.in_each(regions, lambda region: read(calls.make_client("ec2", region)))
    if failed:
        reasons = "; ".join(f"{region}: {reason}" for region, reason in failed.items())
        module.fail_json(msg=f"Failed to {attempt}: a region could not be read: {reasons}")
    return [row for region in regions for row in found[region]]


def save(module, attempt, volume):
    ec2, holder = calls.make_client("ec2", volume["region"]), volume["attachment"].get("instance_id")
    state = calls.instance(ec2, holder)["state"] if holder else ""
    words = f"{volume['id']} is {volume['state']}" + (f" at {holder}, which is {state}" if holder else "")
    if state in ALIVE:
        module.fail_json(msg=f"Failed to {attempt}: {words}; stop what writes to it first")
    if volume["state"] != "available":
        module.exit_json(changed=False, snapshot_id="", waiting_for=f"waiting until nothing holds it: {words}")
    if module.check_mode:
        module.exit_json(changed=True, snapshot_id="")
    start(module, volume)


def start(module, volume):
    """There is no client token for this call: asked twice, AWS makes two."""
    tags = module.params["snapshot_tags"] | {"snapshot_of": volume["id"], "Name": volume["tags"].get("Name", "")}
    once = calls.make_client("ec2", volume["region"], attempts=1)
    with suppress(calls.BotoCoreError):  # Whether it was done shows below.
        once.create_snapshot(
            VolumeId=volume["id"], Description=f"{volume['id']} of {volume['zone']}",
            TagSpecifications=[{"ResourceType": "snapshot", "Tags": calls.tag_list(tags)}],
        )
    until_seen(module, once, volume)


def until_seen(module, ec2, volume):
    mine = {"snapshot_of": volume["id"]}
    if calls.settled(lambda: calls.own_snapshots(ec2, mine), module.params["settle_seconds"]):
        module.exit_json(changed=True, waiting_for=f"waiting for the snapshot of {volume['id']}")
    module.exit_json(changed=False, waiting_for=f"waiting for AWS to start the snapshot of {volume['id']}")


if __name__ == "__main__":
    main()
