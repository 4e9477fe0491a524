#!/usr/bin/python
"""The data set's snapshot in a region: there, on its way, or copied from the region that has it. One look."""

import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.volume_rules import NotOne, copy_tags, listed, present_snapshot, source_snapshot
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: data_snapshot
short_description: Make sure that a region has the data set's snapshot
description:
  - Looks once, starts a copy when there is none, and returns; whoever calls it waits.
  - Returns C(snapshot_id), C(size_gb), C(region), C(origin) (the id of what it is a copy of, else its own).
  - Returns C(waiting_for) in words and C(next) while it is not complete.
options:
  region: {type: str, required: true, description: Where the snapshot is to be.}
  run: {type: str, required: true, description: The run that a copy is made for.}
  kit_tags: {type: dict, required: true, description: Tags of everything that the kit makes.}
  snapshot_id: {type: str, default: "", description: "The snapshot's id, in whatever region it is."}
  snapshot_tags: {type: dict, default: {}, description: Tags that all copies of the data set carry.}
  source_regions: {type: list, elements: str, default: [], description: Where to look; empty for every enabled region.}
  kms_key_alias: {type: str, default: "", description: Key of the region for a copy; empty for AWS's own.}
  settle_seconds: {type: float, default: 30, description: How long a copy is looked for when its answer was lost.}
  copy_id: {type: str, default: "", description: The copy that an earlier look has started.}
  first: {type: bool, default: true, description: "Whether this is the first look: later an error is news."}
author: The authors of this project
"""
OPTIONS = {
    "region": {"type": "str", "required": True},
    "run": {"type": "str", "required": True},
    "kit_tags": {"type": "dict", "required": True},
    "snapshot_id": {"type": "str", "default": ""},
    "snapshot_tags": {"type": "dict", "default": {}},
    "source_regions": {"type": "list", "elements": "str", "default": []},
    "kms_key_alias": {"type": "str", "default": ""},
    "settle_seconds": {"type": "float", "default": 30},
    "copy_id": {"type": "str", "default": ""},
    "first": {"type": "bool", "default": True},
}
# Refused for now, not for good; ResourceLimitExceeded: a region takes 20 copies at a time.
LATER = {"RequestLimitExceeded", "Throttling", "ThrottlingException", "ResourceLimitExceeded"}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    attempt = f"get the data set's snapshot into {module.params['region']}"
    try:
        look(module, attempt)
    except NotOne as error:
        advice = "name one with data_volume_snapshot_id, or delete the others"
        module.fail_json(msg=f"Failed to {attempt}: {error}; {advice}")
    except calls.FAILURES as error:
        module.fail_json(msg=f"Failed to {attempt}: {calls.in_words(error)}")


def look(module, attempt):
    ec2, copy_id = calls.make_client("ec2", module.params["region"]), module.params["copy_id"]
    rows = calls.snapshots(ec2, SnapshotIds=[copy_id]) if copy_id else matching(ec2, module.params)
    found = present_snapshot(rows)
    broken = [row for row in rows if row["state"] == "error"]
    if found:
        tell(module, found)
    if broken and not module.params["first"]:
        module.fail_json(msg=f"Failed to {attempt}: {listed(broken)}: AWS says: {broken[0]['message'] or 'nothing'}")
    if copy_id:
        wait(module, f"the copy {copy_id} to be seen", copy_id)
    source = find_source(module, attempt)
    check_key(module, attempt)
    if module.check_mode:
        words = f"would copy {source['id']} ({source['size_gb']} GiB) from {source['region']} to {ec2.meta.region_name}"
        module.exit_json(changed=True, would=words, **facts_of(source) | {"origin": source["id"]})
    copy(module, ec2, source, [row for row in broken if "copy_of" in row["tags"]])


def facts_of(row):
    origin = row["tags"].get("copy_of", row["id"])
    return {"snapshot_id": row["id"], "size_gb": row["size_gb"], "region": row["region"], "origin": origin}


def tell(module, found):
    facts = facts_of(found)
    if found["state"] == "completed":
        module.exit_json(changed=False, **facts)
    since = time.time() - found["started_at"]
    origin = f", a copy of {found['tags']['copy_of']}," if "copy_of" in found["tags"] else ""
    words = f"snapshot {found['id']}{origin} to be complete: {found['progress'] or '0%'} after {since / 60:.0f} min"
    wait(module, words, found["id"], **facts)


def wait(module, words, copy_id="", changed=False, **facts):
    after = {"first": False, "copy_id": copy_id}
    module.exit_json(changed=changed, waiting_for=f"waiting for {words}", next=after, **facts)


def matching(ec2, wanted):
    """The snapshot with the id; else the copies of it; else those with all the tags."""
    by_id = wanted["snapshot_id"]
    rows = calls.snapshots(ec2, SnapshotIds=[by_id]) if by_id else []
    if not rows and by_id:
        rows = calls.own_snapshots(ec2, {"copy_of": by_id})
    if not [row for row in rows if row["state"] != "error"] and wanted["snapshot_tags"]:
        rows += calls.own_snapshots(ec2, wanted["snapshot_tags"])
    return list({row["id"]: row for row in rows}.values())


def find_source(module, attempt):
    wanted, here = module.params, module.params["region"]
    regions = wanted["source_regions"] or calls.enabled_regions(here)
    others = [region for region in regions if region != here]
    found, failed = calls.in_each(others, lambda region: matching(calls.make_client("ec2", region), wanted))
    rows = [row for region in others for row in found.get(region, [])]
    exact = [row for row in rows if row["id"] == wanted["snapshot_id"]]
    source = source_snapshot(exact or rows)
    if not source:
        what = " or ".join(str(one) for one in (wanted["snapshot_id"], wanted["snapshot_tags"]) if one)
        unread = "".join(f"; {region} could not be read: {reason}" for region, reason in failed.items())
        unfinished = f"; not complete: {listed(rows)}" if rows else ""
        module.fail_json(
            msg=f"Failed to {attempt}: no region ({', '.join([here, *others])}) has {what}{unfinished}{unread}"
        )
    return source


def check_key(module, attempt):
    """A key that cannot be used shows only when the copy has failed, so it is asked for before."""
    alias, region = module.params["kms_key_alias"], module.params["region"]
    if not alias:
        return
    try:
        usable = calls.make_client("kms", region).describe_key(KeyId=alias)["KeyMetadata"]["Enabled"]
    except calls.ClientError as error:
        if calls.code_of(error) != "NotFoundException":
            raise
        module.fail_json(msg=f"Failed to {attempt}: data_volume_kms_key_alias must be a key there, got {alias}")
    if not usable:
        module.fail_json(msg=f"Failed to {attempt}: the key {alias} (data_volume_kms_key_alias) is not enabled there")


def copy(module, ec2, source, broken):
    """Starts the copy, then removes those of older runs that have failed."""
    where = f"from {source['region']} to {ec2.meta.region_name}"
    try:
        copy_id = ask_for_copy(module, source)
    except calls.FAILURES as error:
        if calls.code_of(error) in LATER:
            wait(module, f"AWS to take the copy of {source['id']} {where}: {calls.in_words(error)}")
        if calls.code_of(error) not in calls.UNSURE:
            raise
        copy_id = settled(module, ec2, source)
        if not copy_id:
            wait(module, f"AWS, which gave no answer to the copy of {source['id']} {where}: {calls.in_words(error)}")
    settled(module, ec2, source)
    for row in broken:
        ec2.delete_snapshot(SnapshotId=row["id"])
    wait(module, f"the copy of {source['id']} {where}, {source['size_gb']} GiB: {copy_id}", copy_id, changed=True)


def ask_for_copy(module, source):
    """There is no client token for this call: asked twice, AWS copies twice."""
    wanted, key = module.params, module.params["kms_key_alias"]
    tags = calls.tag_list(copy_tags(source, wanted["kit_tags"], wanted["run"]))
    return calls.make_client("ec2", wanted["region"], attempts=1).copy_snapshot(
        SourceRegion=source["region"], SourceSnapshotId=source["id"], Encrypted=True,
        Description=f"{source['id']} of {source['region']}", **({"KmsKeyId": key} if key else {}),
        TagSpecifications=[{"ResourceType": "snapshot", "Tags": tags}],
    )["SnapshotId"]


def settled(module, ec2, source):
    """The id of the copy whose answer was lost, once it is seen; None when there is none."""
    def there():
        rows = calls.own_snapshots(ec2, {"copy_of": source["id"]})
        return next((row["id"] for row in rows if row["state"] != "error"), None)

    return calls.settled(there, module.params["settle_seconds"])


if __name__ == "__main__":
    main()
