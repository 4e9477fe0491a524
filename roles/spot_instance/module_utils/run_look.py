"""All that a run has on AWS, region by region, side by side. Changes nothing.

A thing is a run's by its tags. New tags and ids are seen late, and tags put on a spot request never reach its instance:
so an instance is also the run's by the token of its launch, and by its request.
"""

from functools import partial

import boto3
from ansible.module_utils.region_reads import DENIED, in_words
from ansible.module_utils.spot_survey import client_maker, region_statuses, side_by_side
from botocore.exceptions import ClientError

ALIVE = ("pending", "running", "stopping", "stopped")


def look(run, journal, timeout_seconds=60):
    """{"instances", "requests" (those that may launch by themselves), "skipped": [region: reason]}.

    OSError: a region does not answer, and nobody can tell what is there.
    """
    found = in_every_region(partial(_read_region, run=run, journal=journal), {journal.get("region")}, timeout_seconds)
    return {
        "instances": [row for rows in found["regions"].values() for row in rows["instances"]],
        "requests": [row for rows in found["regions"].values() for row in rows["requests"]],
        "skipped": found["skipped"],
    }


def in_every_region(read, needed, timeout_seconds):
    """{"regions": {name: read(client, name)}, "skipped": [...]} of every enabled region that the account may use.

    needed: regions that must not be skipped. OSError: one failed.
    """
    session = boto3.session.Session()
    client = client_maker(session)
    _, statuses = region_statuses(client, session.region_name)
    enabled = [name for name, status in statuses.items() if status != "not-opted-in"]
    done = side_by_side({name: partial(_or_denied, read, client, name) for name in enabled}, timeout_seconds)
    failed = [f"{name}: {reason}" for name, (_, reason, _) in done.items() if reason]
    denied = {name: result for name, (result, _, _) in done.items() if isinstance(result, str)}
    if failed or needed & set(denied) or len(denied) == len(done):
        raise OSError("; ".join(failed + [f"{name}: {reason}" for name, reason in denied.items()]))
    regions = {name: result for name, (result, _, _) in done.items() if name not in denied}
    return {"regions": regions, "skipped": [f"{name}: {reason}" for name, reason in denied.items()]}


def _or_denied(read, client, region):
    try:
        return read(client, region)
    except ClientError as error:
        if error.response["Error"]["Code"] in DENIED:
            return in_words(error)
        raise


def tag_filter(run):
    if not run:
        raise ValueError("a run's name must not be empty")
    return [{"Name": "tag:kit", "Values": ["image-trainer"]}, {"Name": "tag:run", "Values": [run]}]


def _read_region(client, region, run, journal):
    ec2 = client("ec2", region)
    requests = _requests(ec2, run)
    rows = [row for filters in _owned(region, run, journal, requests) for row in alive(ec2, filters)]
    found = {row["InstanceId"]: row for row in rows}
    return {
        "instances": [instance_facts(region, row) for row in found.values()],
        "requests": [
            {"id": row["SpotInstanceRequestId"], "region": region, "kind": row["Type"], "state": row["State"]}
            for row in requests
            if row["State"] in ("open", "disabled") or (row["State"], row["Type"]) == ("active", "persistent")
        ],
    }  # fmt: skip


def _requests(ec2, run):
    """In whatever state: one that was cancelled too late has an instance."""
    pages = ec2.get_paginator("describe_spot_instance_requests").paginate(Filters=tag_filter(run))
    return [row for page in pages for row in page["SpotInstanceRequests"]]


def _owned(region, run, journal, requests):
    """The filters by which a run's instances are found."""
    yield tag_filter(run)
    if journal.get("region") == region and "token" in journal:
        yield [{"Name": "client-token", "Values": [journal["token"]]}]
    if fulfilled := [row["InstanceId"] for row in requests if row.get("InstanceId")]:
        yield [{"Name": "instance-id", "Values": fulfilled}]


def alive(ec2, filters):
    states = [{"Name": "instance-state-name", "Values": list(ALIVE)}]
    for page in ec2.get_paginator("describe_instances").paginate(Filters=filters + states):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def instance_facts(region, row):
    """What the kit tells of an instance; addresses are empty while it has none."""
    return {
        "id": row["InstanceId"],
        "region": region,
        "zone": row["Placement"]["AvailabilityZone"],
        "instance_type": row["InstanceType"],
        "market": "spot" if row.get("InstanceLifecycle") == "spot" else "on_demand",
        "state": row["State"]["Name"],
        "image_id": row["ImageId"],
        "address": row.get("PublicIpAddress") or row.get("PrivateIpAddress") or "",
        "private_address": row.get("PrivateIpAddress") or "",
        "launched_at": row["LaunchTime"].timestamp(),
        "subnet_id": row.get("SubnetId") or "",
        "vpc_id": row.get("VpcId") or "",
    }
