#!/usr/bin/python
"""The run's volume in the zone of its instance: there, or made from a snapshot or blank. One look."""

import time

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils import volume_calls as calls
    from ansible.module_utils.volume_rules import ALIVE, NotOne, client_token, listed, split
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: run_volume
short_description: Make sure that a run has its volume in a zone
description:
  - Looks once, makes the volume when there is none, and returns; whoever calls it waits.
  - C(changed) means that this call made the volume, nothing else.
  - Returns C(volume_id) and C(volume) (C(snapshot_id), C(size_gb), C(created_blank)).
  - Returns C(waiting_for) and C(next) while it is not ready.
options:
  region: {type: str, required: true, description: The instance's region.}
  zone: {type: str, required: true, description: The instance's zone; a volume lives in one.}
  instance_id: {type: str, required: true, description: The instance that it is for.}
  tags: {type: dict, required: true, description: The tags by which the volume is found again.}
  name: {type: str, required: true, description: Its Name tag.}
  snapshot_id: {type: str, default: "", description: What it is made from; empty for a blank one.}
  data_from: {type: str, default: "", description: "Whose data that is, whatever the copy; empty where none counts."}
  size_gb: {type: int, default: 0, description: "Its size in GiB; 0 for the snapshot's."}
  throughput_mib_per_second: {type: int, required: true, description: What it can read in a second.}
  iops: {type: int, default: 3000, description: "Its operations in a second; AWS wants 4 for each MiB/s."}
  initialization_rate_mib_per_second: {type: int, default: 0, description: "100-300; 0 for AWS's own pace."}
  kms_key_alias: {type: str, default: "", description: Key of a blank volume; empty for AWS's own.}
  made_id: {type: str, default: "", description: The volume that an earlier look has made.}
author: The authors of this project
"""
OPTIONS = {
    "region": {"type": "str", "required": True},
    "zone": {"type": "str", "required": True},
    "instance_id": {"type": "str", "required": True},
    "tags": {"type": "dict", "required": True},
    "name": {"type": "str", "required": True},
    "snapshot_id": {"type": "str", "default": ""},
    "data_from": {"type": "str", "default": ""},
    "size_gb": {"type": "int", "default": 0},
    "throughput_mib_per_second": {"type": "int", "required": True},
    "iops": {"type": "int", "default": 3000},
    "initialization_rate_mib_per_second": {"type": "int", "default": 0},
    "kms_key_alias": {"type": "str", "default": ""},
    "made_id": {"type": "str", "default": ""},
}
# Longer than any new volume takes to be seen: one that is not there after it is gone.
SEEN_SECONDS = 600
# AWS puts it on a blank volume in the act that makes it, so it proves that to whoever finds the volume later.
BLANK = "blank"


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    attempt = f"make the volume of {module.params['instance_id']} in {module.params['zone']}"
    try:
        look(module, attempt)
    except (NotOne, *calls.FAILURES) as error:
        reason = error if isinstance(error, NotOne) else calls.in_words(error)
        module.fail_json(msg=f"Failed to {attempt}: {reason}")


def look(module, attempt):
    ec2, made_id = calls.make_client("ec2", module.params["region"]), module.params["made_id"]
    question = {"VolumeIds": [made_id]} if made_id else {"Filters": calls.tag_filters(module.params["tags"])}
    rows = fitting(module, ec2, calls.volumes(ec2, **question), attempt)
    here, broken, _ = split(rows, module.params["zone"])
    if here:
        tell(module, ec2, here, attempt)
    if made_id and broken:
        module.fail_json(msg=f"Failed to {attempt}: {listed(broken)}; the next run makes another and deletes this one")
    if made_id:
        wait(module, f"{made_id} to be seen")
    make(module, ec2, broken)


def fitting(module, ec2, rows, attempt):
    """Those with the data that is asked for. A free one with other data is no better than one in another zone."""
    asked = module.params["data_from"]
    others = [row for row in rows if asked and row["tags"].get("data_from", asked) != asked]
    for row in others:
        holder = row["attachment"].get("instance_id")
        if holder and calls.instance(ec2, holder)["state"] in ALIVE:
            refuse_other_data(module, attempt, row, holder)
    return [row for row in rows if row not in others]


def refuse_other_data(module, attempt, volume, holder):
    module.fail_json(
        msg=f"Failed to {attempt}: {volume['id']} at {holder} was made from {volume['tags']['data_from']}, and "
        f"{module.params['data_from']} is asked for; a run that lives gets no other data set: retire it first "
        "(playbooks/retire.yml), or give the run with the other data set a name of its own"
    )


def tell(module, ec2, volume, attempt):
    holder = volume["attachment"].get("instance_id", module.params["instance_id"])
    if holder != module.params["instance_id"]:
        refuse_holder(module, attempt, volume, holder, calls.instance(ec2, holder)["state"])
    blank = not volume["snapshot_id"] and volume["tags"].get(BLANK) == module.params["tags"]["run"]
    what = {"snapshot_id": volume["snapshot_id"], "size_gb": volume["size_gb"], "created_blank": blank}
    facts = {"volume_id": volume["id"], "volume": what}
    if volume["state"] == "creating":
        wait(module, f"{volume['id']} to be made", volume["id"], **facts)
    module.exit_json(changed=False, **facts)


def refuse_holder(module, attempt, volume, holder, state):
    """Two instances never share a volume; what a dying one holds is free, or gone with it, in a while."""
    words = f"{volume['id']} is {volume['attachment']['state']} at {holder}, which is {state}"
    if state in ALIVE:
        module.fail_json(msg=f"Failed to {attempt}: {words}; a volume is never taken from an instance that lives")
    module.exit_json(changed=False, waiting_for=f"waiting for {holder} to let go: {words}")


def wait(module, words, made_id="", changed=False, **facts):
    after = {"made_id": made_id or module.params["made_id"]}
    module.exit_json(changed=changed, waiting_for=f"waiting for {words}", next=after, **facts)


def make(module, ec2, broken):
    wanted = module.params
    what = f"{wanted['snapshot_id'] or 'nothing: a blank one'}, in {wanted['zone']}"
    if module.check_mode:
        module.exit_json(changed=True, volume_id="", would=f"would make a volume from {what}")
    volume = create(module, ec2, sorted(row["id"] for row in broken))
    wait(module, f"{volume['VolumeId']} to be made from {what}", volume["VolumeId"], changed=True)


def create(module, ec2, broken_ids):
    """The new volume. AWS answers a token with the volume it was used for, even when that one is long gone."""
    for attempt in range(10):
        token = client_token(request(module.params), module.params["instance_id"], broken_ids, attempt)
        volume = ec2.create_volume(**request(module.params), ClientToken=token)
        if time.time() - volume["CreateTime"].timestamp() < SEEN_SECONDS:
            break
    return volume


def request(wanted):
    rate, key = wanted["initialization_rate_mib_per_second"], wanted["kms_key_alias"]
    origin = {"data_from": wanted["data_from"]} if wanted["data_from"] else {}
    origin |= {} if wanted["snapshot_id"] else {BLANK: wanted["tags"]["run"]}
    tags = calls.tag_list(wanted["tags"] | {"Name": wanted["name"]} | origin)
    asked = {
        "AvailabilityZone": wanted["zone"], "VolumeType": "gp3", "Throughput": wanted["throughput_mib_per_second"],
        "Iops": wanted["iops"],
        "TagSpecifications": [{"ResourceType": "volume", "Tags": tags}],
    }
    if wanted["size_gb"]:
        asked["Size"] = wanted["size_gb"]
    if wanted["snapshot_id"]:  # encrypted as its snapshot is
        return asked | {"SnapshotId": wanted["snapshot_id"]} | ({"VolumeInitializationRate": rate} if rate else {})
    return asked | {"Encrypted": True} | ({"KmsKeyId": key} if key else {})


if __name__ == "__main__":
    main()
