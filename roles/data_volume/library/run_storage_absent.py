#!/usr/bin/python
"""A run's volumes or snapshots deleted, in every region. One look."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.volume_rules import deletable, listed
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: run_storage_absent
short_description: Delete the volumes or the snapshots of a run
description:
  - Looks into every enabled region, deletes what nothing holds, and returns; whoever calls it waits.
  - Returns C(deleted) (rows), C(unread) (regions that gave no answer, with the reason) and C(waiting_for).
options:
  kind: {type: str, choices: [volume, snapshot], required: true, description: What is deleted.}
  run: {type: str, required: true, description: The run; it must be the value of one of the tags.}
  tags: {type: dict, required: true, description: The tags that all of them carry.}
  keep_ids: {type: list, elements: str, default: [], description: What stays.}
  delete_most: {type: int, required: true, description: "The most that may be deleted; more is an error."}
author: The authors of this project
"""
OPTIONS = {
    "kind": {"type": "str", "choices": ["volume", "snapshot"], "required": True},
    "run": {"type": "str", "required": True},
    "tags": {"type": "dict", "required": True},
    "keep_ids": {"type": "list", "elements": "str", "default": []},
    "delete_most": {"type": "int", "required": True},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    attempt = f"delete the {module.params['kind']}s of run {module.params['run'] or '(without a name)'}"
    refuse_vague(module, attempt)
    try:
        look(module, attempt)
    except calls.FAILURES as error:
        module.fail_json(msg=f"Failed to {attempt}: {calls.in_words(error)}")


def refuse_vague(module, attempt):
    """A tag without a value matches what belongs to others."""
    run, tags = module.params["run"], module.params["tags"]
    values = [str(value).strip() for value in tags.values()]
    if not run.strip() or run not in values or not tags.get("kit") or not all(values):
        module.fail_json(msg=f'Failed to {attempt}: tags must name the kit and the run, got {tags} for run "{run}"')


def look(module, attempt):
    wanted = module.params
    regions = calls.enabled_regions()
    found, unread = calls.in_each(regions, lambda region: find(calls.make_client("ec2", region), wanted))
    rows = [row for region in regions for row in found.get(region, [])]
    if len(rows) > wanted["delete_most"]:
        module.fail_json(
            msg=f"Failed to {attempt}: at most {wanted['delete_most']} may be deleted, got {listed(rows)}; "
            f"data_volume_delete_most={len(rows)} allows it"
        )
    free, held = deletable(rows)
    if not module.check_mode:
        for row in free:
            delete(row)
    words = {"waiting_for": f"waiting until nothing holds {listed(held)}"} if held else {}
    module.exit_json(changed=bool(free), deleted=free, unread=unread, **words)


def find(ec2, wanted):
    if wanted["kind"] == "snapshot":
        rows = calls.own_snapshots(ec2, wanted["tags"])
    else:
        rows = calls.volumes(ec2, Filters=calls.tag_filters(wanted["tags"]))
    gone = ("deleting", "deleted")
    return [row for row in rows if row["id"] not in wanted["keep_ids"] and row["state"] not in gone]


def delete(row):
    ec2 = calls.make_client("ec2", row["region"])
    try:
        if row["id"].startswith("vol-"):
            ec2.delete_volume(VolumeId=row["id"])
        else:
            ec2.delete_snapshot(SnapshotId=row["id"])
    except calls.ClientError as error:
        if calls.code_of(error) not in calls.NOT_FOUND:
            raise


if __name__ == "__main__":
    main()
