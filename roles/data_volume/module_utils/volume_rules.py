"""What is to be done about a snapshot and a volume, from what AWS tells of them: pure functions."""

import hashlib
import json

# In these states an instance holds its volumes, and may come back to life.
ALIVE = ("pending", "running", "stopping", "stopped")
# AWS advises these letters for data; further down are those of the image's own disks.
DEVICES = tuple(f"/dev/sd{letter}" for letter in "fghijklmnop")


class NotOne(ValueError):
    """Several things match where there must be one: none is picked."""


def listed(rows):
    return ", ".join(f"{row['id']} ({row.get('zone') or row['region']}, {row['state']})" for row in rows)


def only(rows, what):
    """The one row, or None; NotOne for several."""
    if len(rows) > 1:
        raise NotOne(f"{what} must be one, got {listed(rows)}")
    return rows[0] if rows else None


def present_snapshot(rows):
    """The snapshot to use in a region: the complete one, else the one on its way, else None.

    Those that ended in an error are nobody's choice.
    """
    complete = [row for row in rows if row["state"] == "completed"]
    under_way = [row for row in rows if row["state"] in ("pending", "recoverable", "recovering")]
    return only(complete or under_way, "the data set's snapshots there")


def source_snapshot(rows):
    """The snapshot to copy from, out of those of all regions: copies of one data set are as good as each other.

    NotOne for two in one region, or when they differ in size.
    """
    complete = [row for row in rows if row["state"] == "completed"]
    regions = [row["region"] for row in complete]
    if len(set(regions)) < len(regions) or len({row["size_gb"] for row in complete}) > 1:
        raise NotOne(f"the snapshot to copy must be one, or one in each region of one size, got {listed(complete)}")
    return min(complete, key=lambda row: row["region"], default=None)


def copy_tags(source, kit_tags, run):
    """Tags of a copy: those of its source, which AWS does not copy, and where it comes from.

    Like its source it belongs to no run, unless that one does: a kept volume on its way to another zone.
    """
    own = {key: value for key, value in source["tags"].items() if not key.startswith("aws:")}
    return own | kit_tags | {"copy_of": source["id"], "copied_from": source["region"], "copied_for": run}


def split(rows, zone):
    """(the volume in the zone or None, its broken ones anywhere, those in other zones), of one run.

    NotOne for two in the zone. What is being deleted counts as gone.
    """
    there = [row for row in rows if row["state"] not in ("deleting", "deleted")]
    broken = [row for row in there if row["state"] == "error"]
    sound = [row for row in there if row["state"] != "error"]
    here = only([row for row in sound if row["zone"] == zone], "the run's volumes in a zone")
    return here, broken, [row for row in sound if row["zone"] != zone]


def obstacle(volume, instance_id, holder_state):
    """("wait" or "fail", why) when the volume cannot be attached to the instance now; ("", "") when it can, or is.

    holder_state: of the instance that holds it, when that is another one.
    """
    held = volume["attachment"]
    if held and held["instance_id"] != instance_id:
        who = f"{volume['id']} is {held['state']} at {held['instance_id']}, which is {holder_state}"
        return ("fail" if holder_state in ALIVE else "wait"), who
    if held and held["state"] not in ("attached", "attaching"):
        return "wait", f"{volume['id']} is {held['state']}"
    if not held and volume["state"] != "available":
        return "wait", f"{volume['id']} is {volume['state']}"
    return "", ""


def choose_device(devices, wanted):
    """A free device name on the instance; devices: {name: volume id}. ValueError without one."""
    names = (wanted,) if wanted else DEVICES
    free = [name for name in names if name not in devices and name.replace("/sd", "/xvd") not in devices]
    if not free:
        taken = ", ".join(f"{name} ({volume})" for name, volume in sorted(devices.items()))
        raise ValueError(f"{names[0] if wanted else 'each name from /dev/sdf to /dev/sdp'} is taken: {taken}")
    return free[0]


def client_token(*facts):
    """The same facts make the same token: a call whose answer was lost is found again, not done again."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:64]


def deletable(rows):
    """(those that can be deleted now, those that something holds) of volumes or snapshots."""
    held = [row for row in rows if row.get("attachment") or row["state"] in ("creating", "in-use", "pending")]
    return [row for row in rows if row not in held], held
