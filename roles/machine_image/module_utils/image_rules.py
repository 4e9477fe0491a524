"""Which of a region's images is the one that is wanted, and what of an instance goes into one: pure functions."""


class Refused(ValueError):
    """None can be taken, and none made, in words."""


def choose(rows, made_id):
    """The image that is available or on its way, or None; rows: {"id", "state", "reason"}.

    Refused for several, and for one that this run has started (made_id) and that AWS could not finish.
    """
    failed = [row for row in rows if row["state"] in ("failed", "error") and row["id"] == made_id]
    if failed:
        raise Refused(f"{made_id} failed, AWS says: {failed[0]['reason'] or 'nothing'}; run it again")
    there = [row for row in rows if row["state"] in ("available", "pending", "transient")]
    if len(there) > 1:
        listed = ", ".join(f"{row['id']} ({row['state']})" for row in there)
        raise Refused(f"there must be one, got {listed}; deregister all but one")
    return there[0] if there else None


def other_disks(instance):
    """The device names of all but the root volume, of a row of describe_instances."""
    names = [disk["DeviceName"] for disk in instance["BlockDeviceMappings"]]
    if instance["RootDeviceName"] not in names:
        raise Refused(f"{instance['InstanceId']} has no root volume {instance['RootDeviceName']}, got {names}")
    return [name for name in names if name != instance["RootDeviceName"]]
