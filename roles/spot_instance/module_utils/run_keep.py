"""Makes what was found of a run into one running instance."""

from ansible.module_utils.launch_walk import START_SECONDS, Stopped, running
from ansible.module_utils.run_look import look


def keep(client, run, journal, instance, requests):
    """The facts of the instance once it runs; {} without one.

    Stopped: it ended instead, or does not run in time. ValueError: the requests had launched another one.
    """
    if instance and instance["state"] in ("stopping", "stopped"):
        _start(client("ec2", instance["region"]), instance["id"])  # AWS starts none whose request is cancelled
    if requests:
        cancel(client, requests)
        # One of them may have launched in the last moment.
        instances = look(run, journal)["instances"]
        if len(instances) > 1:
            ids = ", ".join(f"{row['id']} in {row['zone']}" for row in instances)
            raise ValueError(f"it has {len(instances)}, and none is picked: {ids}; terminate all but one")
        instance = next(iter(instances), {})
    if not instance:
        return {}
    ec2 = client("ec2", instance["region"])
    facts, code, message = running(ec2, instance["region"], instance["id"])
    if not facts:
        raise Stopped(f"{message} ({code}); run again")
    return facts


def cancel(client, requests):
    for row in requests:
        client("ec2", row["region"]).cancel_spot_instance_requests(SpotInstanceRequestIds=[row["id"]])


def _start(ec2, instance_id):
    waiter = {"Delay": 2, "MaxAttempts": START_SECONDS // 2}
    ec2.get_waiter("instance_stopped").wait(InstanceIds=[instance_id], WaiterConfig=waiter)
    ec2.start_instances(InstanceIds=[instance_id])
