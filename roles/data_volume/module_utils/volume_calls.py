"""Calls to EC2 about snapshots and volumes, and their answers as small rows."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import boto3
from ansible.module_utils.spot_survey import region_statuses
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# Throttled calls and passing faults are tried again after growing, random waits of up to 20 s.
RETRIES = 6
NOT_FOUND = {
    "InvalidSnapshot.NotFound", "InvalidSnapshotID.NotFound", "InvalidVolume.NotFound", "InvalidInstanceID.NotFound",
}
FAILURES = (BotoCoreError, ClientError, OSError)
# Codes of a call that has no client token: nobody knows whether these were carried out.
UNSURE = {"", "InternalError", "InternalFailure", "Unavailable", "ServiceUnavailable"}
_LOCK = threading.Lock()


@cache
def _session():
    """One for all clients, for it keeps what boto3 knows of each service; it is not thread-safe."""
    return boto3.session.Session()


def make_client(service, region, attempts=RETRIES):
    """attempts=1 for calls that AWS would carry out twice: a lost answer must not be asked for again."""
    retries = {"mode": "standard", "total_max_attempts": attempts}
    with _LOCK:
        config = Config(retries=retries, connect_timeout=5, read_timeout=30)
        return _session().client(service, region_name=region, config=config)


def code_of(error):
    """AWS's code of a refusal; empty when there was no answer at all."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else ""


def in_words(error):
    if isinstance(error, OSError):
        return str(error)
    if not isinstance(error, ClientError):
        return f"{type(error).__name__}: {error}"
    return f"{code_of(error)}: {error.response['Error'].get('Message', '')}"


def settled(look, seconds):
    """What look() finds, once it is seen: of a call whose answer was lost. None after so long without it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(1)
    return None


def enabled_regions(home=""):
    """Those that the account can use. home: the region that is asked first; empty for the user's own."""
    _, statuses = region_statuses(make_client, home or _session().region_name)
    return sorted(name for name, status in statuses.items() if status != "not-opted-in")


def in_each(regions, look):
    """({region: rows}, {region: why it could not be read}) of look(region), side by side."""
    with ThreadPoolExecutor(max_workers=16) as threads:
        asked = {region: threads.submit(look, region) for region in regions}
    found, failed = {}, {}
    for region, answer in asked.items():
        try:
            found[region] = answer.result()
        except FAILURES as error:
            failed[region] = in_words(error)
    return found, failed


def tag_filters(tags):
    return [{"Name": f"tag:{key}", "Values": [str(value)]} for key, value in sorted(tags.items())]


def tag_list(tags):
    return [{"Key": key, "Value": str(value)} for key, value in sorted(tags.items())]


def _pages(ec2, operation, key, **arguments):
    """All rows; none when the one that was asked for by its id is not there."""
    try:
        return [row for page in ec2.get_paginator(operation).paginate(**arguments) for row in page[key]]
    except ClientError as error:
        if code_of(error) in NOT_FOUND:
            return []
        raise


def snapshots(ec2, **question):
    """{"id", "region", "state", "message", "progress", "size_gb", "encrypted", "tags", "started_at"} of each."""
    rows = _pages(ec2, "describe_snapshots", "Snapshots", **question)
    return [
        {
            "id": row["SnapshotId"], "region": ec2.meta.region_name, "state": row["State"],
            "message": row.get("StateMessage") or "", "progress": row.get("Progress") or "",
            "size_gb": row["VolumeSize"], "encrypted": row.get("Encrypted", False),
            "started_at": row["StartTime"].timestamp(), "tags": _tags(row),
        }
        for row in rows
    ]


def own_snapshots(ec2, tags):
    return snapshots(ec2, OwnerIds=["self"], Filters=tag_filters(tags))


def volumes(ec2, **question):
    """{"id", "region", "zone", "state", "size_gb", "snapshot_id", "tags", "attachment"} of each.

    attachment: {} or {"instance_id", "device", "state", "delete_on_termination"}.
    """
    rows = _pages(ec2, "describe_volumes", "Volumes", **question)
    return [
        {
            "id": row["VolumeId"], "region": ec2.meta.region_name, "zone": row["AvailabilityZone"],
            "state": row["State"], "size_gb": row["Size"], "snapshot_id": row.get("SnapshotId") or "",
            "tags": _tags(row), "attachment": _attachment(row),
        }
        for row in rows
    ]


def _attachment(row):
    held = [one for one in row.get("Attachments", []) if one.get("State") != "detached"]
    return next(
        (
            {
                "instance_id": one["InstanceId"], "device": one["Device"], "state": one["State"],
                "delete_on_termination": one.get("DeleteOnTermination", False),
            }
            for one in held
        ),
        {},
    )


def _tags(row):
    return {tag["Key"]: tag["Value"] for tag in row.get("Tags", [])}


def instance(ec2, instance_id):
    """{"state", "devices": {device name: volume id}}; state "gone" for one that AWS does not know (any more)."""
    reservations = _pages(ec2, "describe_instances", "Reservations", InstanceIds=[instance_id])
    rows = [row for reservation in reservations for row in reservation["Instances"]]
    if not rows:
        return {"state": "gone", "devices": {}}
    mappings = rows[0].get("BlockDeviceMappings", [])
    return {
        "state": rows[0]["State"]["Name"],
        "devices": {one["DeviceName"]: one.get("Ebs", {}).get("VolumeId", "") for one in mappings},
    }
