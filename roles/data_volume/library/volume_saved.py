#!/usr/bin/python
"""A snapshot of the run's volume, unless the volume is where it is wanted. One look."""

from contextlib import suppress

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.region_reads import DENIED
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
  - Without a zone each of the run's volumes gets one: C(snapshot_ids). Without a volume that is the newest one.
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
    zone, asked = module.params["zone"], module.params["snapshot_tags"]
    tagged = calls.tag_filters(module.params["tags"])
    volumes = everywhere(module, attempt, lambda ec2: calls.volumes(ec2, Filters=tagged))
    here, _, elsewhere = split(volumes, zone)
    if here:
        tell(module)
    if zone:
        only(elsewhere, "the run's volumes in other zones")
    snapshots = everywhere(module, attempt, lambda ec2: calls.own_snapshots(ec2, asked))
    saved = [row for row in snapshots if "copy_of" not in row["tags"]]
    if not elsewhere:
        tell(module, *newest(saved))
    tell(module, *[made(module, attempt, volume, saved) for volume in elsewhere])


def tell(module, *saved):
    """Ends the look with the snapshots; the first of those that are not complete is waited for."""
    ids = [row["id"] for row in saved]
    facts = {"changed": False, "snapshot_id": ids[-1] if ids else "", "snapshot_ids": ids}
    for row in saved:
        if row["state"] != "completed":
            words = f"waiting for snapshot {row['id']} to be complete: {row['progress'] or '0%'}"
            module.exit_json(**facts, waiting_for=words)
    module.exit_json(**facts)


def newest(snapshots):
    """Of a run whose volumes are gone: each life of its name has left one."""
    sound = [row for row in snapshots if row["state"] != "error"]
    return sorted(sound, key=lambda row: row["started_at"])[-1:]


def made(module, attempt, volume, snapshots):
    """The volume's snapshot. Without one the look ends here, with the start of it."""
    own = [row for row in snapshots if row["tags"].get("snapshot_of") == volume["id"]]
    if snapshot := present_snapshot(own):
        return snapshot
    if own:
        words = f"{own[0]['id']} failed, AWS says: {own[0]['message']}; delete it and run again"
        module.fail_json(msg=f"Failed to {attempt}: {words}")
    return save(module, attempt, volume)


def everywhere(module, attempt, read):
    """Rows of all regions. What a region that does not answer holds is unknown, so nothing is decided then.

    One that the account may not use holds nothing of ours; all of them are too many.
    """
    regions = calls.enabled_regions()
    found, failed = calls.in_each(regions, lambda region: read(calls.make_client("ec2", region)))
    unknown = {region: why for region, why in failed.items() if not why.startswith(DENIED) or not found}
    if unknown:
        reasons = "; ".join(f"{region}: {reason}" for region, reason in unknown.items())
        module.fail_json(msg=f"Failed to {attempt}: a region could not be read: {reasons}")
    return [row for region in regions for row in found.get(region, [])]


def save(module, attempt, volume):
    if module.check_mode and not module.params["zone"]:  # a retire ends what holds it before
        module.exit_json(changed=True, snapshot_id="", snapshot_ids=[])
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
    mine = module.params["snapshot_tags"] | {"snapshot_of": volume["id"]}
    if calls.settled(lambda: calls.own_snapshots(ec2, mine), module.params["settle_seconds"]):
        module.exit_json(changed=True, waiting_for=f"waiting for the snapshot of {volume['id']}")
    module.exit_json(changed=False, waiting_for=f"waiting for AWS to start the snapshot of {volume['id']}")


if __name__ == "__main__":
    main()
