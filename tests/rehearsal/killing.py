"""A controller that is killed while AWS carries out what it asked for, and what its plays leave at AWS.

The double carries the call out and holds its answer back, which is the worst moment.
"""

import subprocess
import time
from pathlib import Path
from typing import Any

import psutil

from tests.fakes.aws.clients import client
from tests.fakes.aws.world import world
from tests.rehearsal import playing
from tests.rehearsal.market import settings

# The names of all actions that change something: none that describes, gets, lists or asks for the head.
CHANGES = ("*:[!DGLH]*", "*:De[!s]*", "*:Di*")
_OF_A_REGION = {
    "describe_key_pairs": ("KeyPairs", "KeyName"),
    "describe_security_groups": ("SecurityGroups", "GroupId"),
    "describe_vpcs": ("Vpcs", "VpcId"),
    "describe_subnets": ("Subnets", "SubnetId"),
    "describe_internet_gateways": ("InternetGateways", "InternetGatewayId"),
    "describe_route_tables": ("RouteTables", "RouteTableId"),
}
_OF_THE_ACCOUNT = {
    ("iam", "list_roles"): ("Roles", "RoleName"),
    ("iam", "list_instance_profiles"): ("InstanceProfiles", "InstanceProfileName"),
    ("s3", "list_buckets"): ("Buckets", "Name"),
}


def held(service: str = "*") -> list[dict[str, Any]]:
    """Faults: the answer to a call that changes something never comes."""
    return [{"action": action.replace("*", service, 1), "codes": ["held"], "forever": True} for action in CHANGES]


def ends_by_itself(endpoint: str, folder: Path, name: str, *options: str, **more: Any) -> bool:
    """Plays once. False: an answer was held back, and no process of the controller got to do anything after that."""
    command = playing.command(name, settings(**more), folder, *options)
    log, before = folder / "controller.log", _held()
    with log.open("w") as file:
        controller = psutil.Popen(
            command, cwd=folder, env=playing.environment(**playing.credentials(endpoint)), stdin=subprocess.DEVNULL,
            stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    while controller.poll() is None:
        if _held() > before:
            _kill(controller)
            return False
        time.sleep(0.05)
    assert controller.returncode == 0, log.read_text()
    return True


def _held() -> int:
    return sum(call["fault"] == "held" for call in world().calls)


def _kill(controller: psutil.Popen) -> None:
    for process in [controller, *controller.children(recursive=True)]:
        process.kill()
    controller.wait()


def kills_until_it_ends(endpoint: str, folder: Path, name: str, *options: str, **more: Any) -> int:
    """Plays again after each kill. How many there were."""
    for kills in range(100):
        if ends_by_itself(endpoint, folder, name, *options, **more):
            return kills
    raise AssertionError("It is killed for ever")


def things(endpoint: str) -> set[str]:
    """All that is in all regions and services that the kit uses, whatever its tags; but for snapshots, which stay."""
    state = playing.control(endpoint, "state")
    found = {row["id"] for rows in state.values() for row in rows if row["kind"] != "snapshot"}
    for region in state:
        ec2 = client(endpoint, region=region, timeout=60)
        for method, (rows, name) in _OF_A_REGION.items():
            found |= _names(getattr(ec2, method)(), rows, name)
    for (service, method), (rows, name) in _OF_THE_ACCOUNT.items():
        found |= _names(getattr(client(endpoint, service, timeout=60), method)(), rows, name)
    return found


def _names(answer: dict[str, Any], rows: str, name: str) -> set[str]:
    return {row[name] for row in answer[rows]}
