"""Ends a run's instances and spot requests: exactly those that look() finds, and no more than was said."""

import time

from ansible.module_utils.region_reads import DENIED, in_words
from ansible.module_utils.run_keep import cancel
from ansible.module_utils.run_look import look
from botocore.exceptions import ClientError

GONE_SECONDS = 300


def end(client, run, journal, most, dry):
    """(what was or would be ended: {"instances": [...], "requests": [...]}); waits until the instances are gone.

    ValueError: there are more instances than `most`; none is ended. OSError: one is not gone in time, or may
    not be ended because it is not tagged.
    """
    found = look(run, journal)
    requests = found["requests"]
    _check(found["instances"], most)
    if dry:
        return {"instances": found["instances"], "requests": requests}
    if requests:
        # First the requests, or they launch again; then those that one of them launched in the last moment.
        cancel(client, requests)
        instances = {row["id"]: row for row in found["instances"] + look(run, journal)["instances"]}
        _check(instances.values(), most)
        found["instances"] = list(instances.values())
    for row in found["instances"]:
        _terminate(client("ec2", row["region"]), row)
    _wait_until_gone(client, found["instances"])
    return {"instances": found["instances"], "requests": requests}


def _terminate(ec2, row):
    try:
        ec2.terminate_instances(InstanceIds=[row["id"]])
    except ClientError as error:
        if error.response["Error"]["Code"] not in DENIED or _is_tagged(ec2, row["id"]):
            raise
        raise OSError(
            f"{row['id']} in {row['region']} carries no tag of the kit, so docs/iam/launch.json does not allow to end "
            "it; an older tool's spot request launched it. End it in AWS's console (EC2, Instances) and run again. "
            f"AWS says: {in_words(error)}"
        ) from error


def _is_tagged(ec2, instance_id):
    wanted = [{"Name": "tag:kit", "Values": ["image-trainer"]}, {"Name": "instance-id", "Values": [instance_id]}]
    return bool(ec2.describe_instances(Filters=wanted)["Reservations"])


def _check(instances, most):
    if len(instances) > most:
        rows = ", ".join(f"{row['id']} ({row['instance_type']}, {row['state']}, in {row['zone']})" for row in instances)
        raise ValueError(f"it would end {len(instances)} instances, and spot_instance_retire_count is {most}: {rows}")


def _wait_until_gone(client, instances):
    deadline = time.time() + GONE_SECONDS
    for row in instances:
        ec2 = client("ec2", row["region"])
        while (state := _state(ec2, row["id"])) != "terminated":
            if time.time() > deadline:
                raise OSError(f"{row['id']} in {row['region']} is still {state} after {GONE_SECONDS} s")
            time.sleep(1)


def _state(ec2, instance_id):
    filters = [{"Name": "instance-id", "Values": [instance_id]}]
    rows = [row for group in ec2.describe_instances(Filters=filters)["Reservations"] for row in group["Instances"]]
    return rows[0]["State"]["Name"] if rows else "terminated"
