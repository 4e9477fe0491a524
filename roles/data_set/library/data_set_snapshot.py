#!/usr/bin/python
"""The snapshot of a data set: there, on its way, or made from the volume with the records. One look."""

import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.data_set_rules import Refused, choose
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: data_set_snapshot
short_description: Make sure that a data set has its snapshot
description:
  - Looks once, starts the snapshot when there is none and a volume is given, and returns; whoever calls it waits, if
    C(wait) is set.
  - Returns C(snapshot_id) (empty when there is none), C(state), C(tags); C(waiting_for) in words and C(next) while it
    is not complete.
options:
  region: {type: str, required: true, description: Where it is.}
  tags: {type: dict, required: true, description: Tags by which it is found.}
  made_from: {type: str, required: true, description: "The tag of that name, which one that is there must have."}
  volume_id: {type: str, default: "", description: The volume to make it from; empty only looks.}
  wait: {type: bool, default: false, description: Whether one that is not complete is waited for.}
  facts: {type: dict, default: {}, description: More tags for a new one.}
  settle_seconds: {type: float, default: 30, description: How long a snapshot whose answer was lost is looked for.}
  made_id: {type: str, default: "", description: The snapshot that an earlier look has found or started.}
author: The authors of this project
"""
OPTIONS = {
    "region": {"type": "str", "required": True},
    "tags": {"type": "dict", "required": True},
    "made_from": {"type": "str", "required": True},
    "volume_id": {"type": "str", "default": ""},
    "wait": {"type": "bool", "default": False},
    "facts": {"type": "dict", "default": {}},
    "settle_seconds": {"type": "float", "default": 30},
    "made_id": {"type": "str", "default": ""},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    attempt = f"get the data set's snapshot in {module.params['region']}"
    try:
        look(module)
    except Refused as error:
        module.fail_json(msg=f"Failed to {attempt}: {error}")
    except calls.FAILURES as error:
        module.fail_json(msg=f"Failed to {attempt}: {calls.in_words(error)}")


def look(module):
    wanted = module.params
    ec2 = calls.make_client("ec2", wanted["region"])
    rows = calls.snapshots(ec2, SnapshotIds=[wanted["made_id"]]) if wanted["made_id"] else found(ec2, wanted)
    there = choose(rows, wanted["made_from"], wanted["made_id"])
    if there:
        tell(module, there)
    if wanted["made_id"]:
        wait(module, wanted["made_id"], f"snapshot {wanted['made_id']} to be seen")
    if not wanted["volume_id"]:
        module.exit_json(changed=False, snapshot_id="", state="none", tags={})
    if module.check_mode:
        module.exit_json(changed=True, snapshot_id="", state="none", tags={})
    made_id = make(ec2, wanted)
    wait(module, made_id, f"snapshot {made_id} of {wanted['volume_id']}", changed=True)


def found(ec2, wanted):
    return calls.own_snapshots(ec2, wanted["tags"])


def tell(module, row):
    facts = {"snapshot_id": row["id"], "state": row["state"], "tags": row["tags"]}
    if row["state"] == "completed" or not module.params["wait"]:
        module.exit_json(changed=False, **facts)
    since = f"{(time.time() - row['started_at']) / 60:.0f} min"
    wait(module, row["id"], f"snapshot {row['id']} to be complete: {row['progress'] or '0%'} after {since}", **facts)


def wait(module, made_id, words, changed=False, **facts):
    module.exit_json(changed=changed, waiting_for=f"waiting for {words}", next={"made_id": made_id}, **facts)


def make(ec2, wanted):
    """Its id. There is no client token for this call: asked twice, AWS makes two."""
    tags = wanted["tags"] | wanted["facts"] | {"made_from": wanted["made_from"]}
    once = calls.make_client("ec2", wanted["region"], attempts=1)
    try:
        return once.create_snapshot(
            VolumeId=wanted["volume_id"], Description=f"data set {wanted['tags']['dataset']}",
            TagSpecifications=[{"ResourceType": "snapshot", "Tags": calls.tag_list(tags)}],
        )["SnapshotId"]
    except calls.FAILURES as error:
        if calls.code_of(error) not in calls.UNSURE:
            raise
        made = calls.settled(lambda: choose(found(ec2, wanted), wanted["made_from"], ""), wanted["settle_seconds"])
        if not made:
            raise
        return made["id"]


if __name__ == "__main__":
    main()
