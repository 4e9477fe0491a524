"""A run on the rehearsal's machines as its events and its second place tell of it."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

from tests.fakes.aws.clients import client
from tests.rehearsal.machine import Machine
from tests.rehearsal.machines import Machines

RUN = "/var/lib/trainer/run/trainer-1"


def only(fleet: Machines) -> Machine:
    [machine] = fleet.by_id.values()
    return machine


def events(machine: Machine, kind: str) -> list[dict[str, Any]]:
    lines = machine.host.read(f"cat {RUN}/events.jsonl").splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def steps(machine: Machine) -> list[int]:
    return [event["step"] for event in events(machine, "step")]


def mirrored_step(endpoint: str) -> int:
    """Of the newest checkpoint in the second place; 0 without any."""
    s3 = client(endpoint, "s3")
    [bucket] = [row["Name"] for row in s3.list_buckets()["Buckets"]]
    found = s3.list_objects_v2(Bucket=bucket, Prefix="runs/trainer-1/LATEST").get("Contents")
    if not found:
        return 0
    latest = json.loads(s3.get_object(Bucket=bucket, Key=found[0]["Key"])["Body"].read())
    return latest["copies"][0]["step"] if latest["copies"] else 0


def changed(printed: str) -> int:
    """What the end of a play counts."""
    return int(printed.rpartition("changed=")[2].split()[0])


def changed_tasks(printed: str) -> list[str]:
    """The names of the tasks of a play that changed something, in their order."""
    blocks = re.split(r"^TASK \[(.*)\] \*+$", printed, flags=re.MULTILINE)
    return [name for name, told in zip(blocks[1::2], blocks[2::2], strict=True) if "\nchanged: [" in told]


def wait(condition: Callable[[], Any], limit_seconds: float = 300) -> Any:
    deadline = time.monotonic() + limit_seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {limit_seconds} s"
        time.sleep(0.5)
    return found
