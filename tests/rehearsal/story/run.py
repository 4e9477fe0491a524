"""The run as its machine and its second place tell it."""

import json
import time
from collections.abc import Callable
from typing import Any

from host import Host

from tests.fakes.aws.clients import client
from tests.rehearsal.machine import Machine

NAME = "trainer-1"
RUN = f"/var/lib/trainer/run/{NAME}"
LOOK_SECONDS = 0.5
# Nothing takes so long, however busy the machine is.
PATIENCE_SECONDS = 600


class BrokenPromiseError(Exception):
    """Something did not end as it should."""


def wait(condition: Callable[[], Any], what: str, limit_seconds: float = PATIENCE_SECONDS) -> Any:
    deadline = time.monotonic() + limit_seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise BrokenPromiseError(f"waited {limit_seconds:.0f} s in vain for {what}")
        time.sleep(LOOK_SECONDS)
    return found


def events(machine: Machine, *kinds: str) -> list[dict]:
    """The half-written line that a reader may meet is none."""
    text = machine.host.run(f"cat {RUN}/events.jsonl", check=False).stdout
    found = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    return [event for event in found if event["kind"] in kinds]


def last_step(machine: Machine) -> dict:
    """The newest `step` event; step 0 before the first."""
    return next(reversed(events(machine, "step")), {"step": 0, "t": 0.0})


def price(machine: Machine) -> dict:
    """What the machine costs, as the run is told."""
    return json.loads(machine.host.read(f"cat {RUN}/price.json"))


def keep(promise: bool, words: str) -> None:
    """Raises BrokenPromiseError with the words when it is not kept."""
    if not promise:
        raise BrokenPromiseError(words)


def newest_sums(host: Host) -> dict[str, str]:
    """SHA-256 of the arrays in the newest checkpoint, by file."""
    sums = json.loads(host.read(f"cat {RUN}/checkpoints/$(cat {RUN}/LATEST)/checksums.json"))
    return {name: value for name, value in sums.items() if name.endswith(".params")}


def mirrored_step(endpoint: str) -> int:
    """Of the newest checkpoint in the second place; 0 without any."""
    s3 = client(endpoint, "s3")
    for bucket in s3.list_buckets()["Buckets"]:
        found = s3.list_objects_v2(Bucket=bucket["Name"], Prefix=f"runs/{NAME}/LATEST").get("Contents")
        if found:
            latest = json.loads(s3.get_object(Bucket=bucket["Name"], Key=found[0]["Key"])["Body"].read())
            return latest["copies"][0]["step"] if latest["copies"] else 0
    return 0
