"""What carries a run's tag in one region: what costs money, and what is merely left. Reads only.

A row of what costs: {"key" (unique over time), "kind" (instance, volume, snapshot, spot_request, address), "id",
"region", "zone", "from" and "until" (unix seconds; until None: it costs, or AWS does not tell), "state", "alive", and
what its kind has beside that}. A snapshot that was copied for the run and carries no run's tag is `shared`: it stays.
A volume that carries no tag `volume` `is_root`: the instance came with it, and takes it along.
A row of what is left and costs nothing: {"kind", "id", "region"}.
"""

import re
from datetime import UTC, datetime

from ansible.module_utils.region_reads import DENIED, in_words
from botocore.exceptions import ClientError

KIT = {"Key": "kit", "Value": "image-trainer"}
ACCOUNT = "account"
# Nothing of these is charged for by itself.
FREE = {
    "network_interface": ("describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    "key_pair": ("describe_key_pairs", "KeyPairs", "KeyPairId"),
    "security_group": ("describe_security_groups", "SecurityGroups", "GroupId"),
    "subnet": ("describe_subnets", "Subnets", "SubnetId"),
    "route_table": ("describe_route_tables", "RouteTables", "RouteTableId"),
    "internet_gateway": ("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    "vpc": ("describe_vpcs", "Vpcs", "VpcId"),
    "image": ("describe_images", "Images", "ImageId"),
}
CHARGED = ("pending", "running")
# A stopped instance is alive: its volumes go on costing. A request that waits may launch one at any time.
ENDED = {"instance": ("shutting-down", "terminated"), "volume": ("deleting", "deleted"),
         "spot_request": ("closed", "cancelled", "failed")}
# "User initiated (2026-12-03 03:43:12 GMT)": AWS writes when into this text and nowhere else.
ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
INTERRUPTED = "Server.SpotInstanceTermination"
# Codes of a spot request whose instance is gone; not by AWS's own wish.
TERMINATED, BY_ITS_OWNER = "instance-terminated-", ("by-user", "by-schedule")


def scan_region(client, region, run):
    """{"costs": [rows], "left": [rows], "strangers": [rows like those left: the run's tag, but not the kit's]}.

    A string in its place is why the region may not be used. A refusal of anything but a look at instances is an error:
    one permission that is missing tells nothing about a region.
    """
    ec2 = client("ec2", region)
    tagged = [{"Name": "tag:run", "Values": [run]}]
    copied = [{"Name": "tag:copied_for", "Values": [run]}]
    found = {"costs": [], "left": [], "strangers": []}
    if why := _denied(ec2, tagged):
        return why
    requests = _rows(ec2, "describe_spot_instance_requests", "SpotInstanceRequests", tagged)
    _add(found, "costs", "spot_request", region, map(_request, requests))
    _add(found, "costs", "instance", region, map(_instance, _instances(ec2, tagged, requests)))
    _add(found, "costs", "volume", region, map(_volume, _rows(ec2, "describe_volumes", "Volumes", tagged)))
    for wanted in (tagged, copied):
        rows = _rows(ec2, "describe_snapshots", "Snapshots", wanted, OwnerIds=["self"])
        _add(found, "costs", "snapshot", region, map(_snapshot, rows))
    _add(found, "costs", "address", region, map(_address, _rows(ec2, "describe_addresses", "Addresses", tagged)))
    for kind, (operation, key, name) in FREE.items():
        owned = {"Owners": ["self"]} if kind == "image" else {}
        rows = _rows(ec2, operation, key, tagged, **owned)
        _add(found, "left", kind, region, [_left(row, name) for row in rows])
    return found


def _denied(ec2, tagged):
    try:
        _rows(ec2, "describe_instances", "Reservations", tagged)
    except ClientError as error:
        if error.response["Error"]["Code"] in DENIED:
            return in_words(error)
        raise
    return ""


def _left(row, name):
    return {"id": row[name], "Tags": row.get("Tags", row.get("TagSet"))}


def scan_account(client, home, run):
    """The same for what belongs to no region: the role and instance profile through which a host reaches its mirror."""
    iam, name = client("iam", home), f"trainer-{run}"
    asked = {
        "iam_role": lambda: iam.get_role(RoleName=name)["Role"],
        "instance_profile": lambda: iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"],
    }
    found = {"costs": [], "left": [], "strangers": []}
    for kind, ask in asked.items():
        try:
            _add(found, "left", kind, ACCOUNT, [{"id": name, "Tags": ask().get("Tags")}])
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchEntity":
                raise
    return found


def _rows(ec2, operation, key, filters, **arguments):
    if not ec2.can_paginate(operation):
        return getattr(ec2, operation)(Filters=filters, **arguments)[key]
    pages = ec2.get_paginator(operation).paginate(Filters=filters, **arguments)
    return [row for page in pages for row in page[key]]


def _instances(ec2, tagged, requests):
    """Those with the tags, and those of the run's requests: a request that is fulfilled late gives no tags."""
    ids = [row["InstanceId"] for row in requests if row.get("InstanceId") and KIT in row.get("Tags", [])]
    requested = [{"Name": "instance-id", "Values": ids}]
    groups = _rows(ec2, "describe_instances", "Reservations", tagged)
    groups += _rows(ec2, "describe_instances", "Reservations", requested) if ids else []
    found = {row["InstanceId"]: row for group in groups for row in group["Instances"]}
    return [row | {"Tags": [KIT]} if one in ids else row for one, row in found.items()]


def _add(found, where, kind, region, rows):
    for row in rows:
        fact = {"kind": kind, "id": row.pop("id"), "region": region}
        is_ours, alive = KIT in (row.pop("Tags") or []), row.get("state") not in ENDED.get(kind, ())
        if is_ours:
            found[where].append(fact | ({"alive": alive} | row if row else {}))
        elif alive:
            found["strangers"].append(fact)


def _instance(row):
    """A start after a stop is charged anew and has a launch time of its own: a row of its own."""
    started = _seconds(row["LaunchTime"])
    return {
        "id": row["InstanceId"], "Tags": row.get("Tags"), "key": f"{row['InstanceId']}@{started}",
        "zone": row["Placement"]["AvailabilityZone"], "instance_type": row["InstanceType"],
        "market": "spot" if row.get("InstanceLifecycle") == "spot" else "on_demand", "from": started,
        "until": ended_at(row), "state": row["State"]["Name"],
        "interrupted": row.get("StateReason", {}).get("Code") == INTERRUPTED,
    }


def ended_at(row):
    """Unix seconds at which an instance's charge ended; None while it goes on, or when AWS does not tell."""
    told = ENDED_AT.search(row.get("StateTransitionReason") or "")
    if row["State"]["Name"] in CHARGED or not told:
        return None
    return int(datetime.fromisoformat(told[1]).replace(tzinfo=UTC).timestamp())


def _volume(row):
    on = next((one for one in row.get("Attachments", []) if one.get("DeleteOnTermination")), {})
    tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags") or []}
    return {
        "id": row["VolumeId"], "Tags": row.get("Tags"), "key": row["VolumeId"], "zone": row["AvailabilityZone"],
        "is_root": "volume" not in tags,
        "size_gb": row["Size"], "from": _seconds(row["CreateTime"]), "until": None, "state": row["State"],
        "ends_with": on.get("InstanceId"),
    }


def _snapshot(row):
    tags = {tag["Key"]: tag["Value"] for tag in row.get("Tags") or []}
    return {
        "id": row["SnapshotId"], "Tags": row.get("Tags"), "key": row["SnapshotId"], "zone": None,
        "size_gb": row["VolumeSize"], "from": _seconds(row["StartTime"]), "until": None, "state": row["State"],
        "copied_from": tags.get("copied_from"), "shared": "run" not in tags,
    }


def _request(row):
    status = row.get("Status") or {}
    has_ended, cause = status.get("Code", "").startswith(TERMINATED), status.get("Code", "").removeprefix(TERMINATED)
    return {
        "id": row["SpotInstanceRequestId"], "Tags": row.get("Tags"), "key": row["SpotInstanceRequestId"], "zone": None,
        "from": _seconds(row["CreateTime"]), "until": None, "state": row["State"], "instance_id": row.get("InstanceId"),
        "instance_ended": _seconds(status["UpdateTime"]) if has_ended else None,
        "instance_interrupted": has_ended and cause not in BY_ITS_OWNER,
    }


def _address(row):
    return {
        "id": row["AllocationId"], "Tags": row.get("Tags"), "key": row["AllocationId"], "zone": None, "from": None,
        "until": None, "state": row["PublicIp"],
    }


def _seconds(moment):
    return int(moment.timestamp())
