"""Whether IAM documents allow a call, with their resources and conditions: Allow statements only, as the kit's are.

What a call touches is told by its parameters: ids of EC2, names of IAM, S3's path. Its conditions' keys are those that
docs/iam uses. Sources: AWS, "Service Authorization Reference"; EC2 User Guide, "Grant permission to tag resources
during creation" (tags of a call are a CreateTags of their own, on what is made, with ec2:CreateAction).
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs

from . import instances
from .call import Call

KINDS = {
    "i": "instance", "vol": "volume", "snap": "snapshot", "ami": "image", "sg": "security-group", "subnet": "subnet",
    "vpc": "vpc", "igw": "internet-gateway", "rtb": "route-table", "sir": "spot-instances-request", "key": "key-pair",
}  # fmt: skip
ID = re.compile(rf"({'|'.join(KINDS)})-[0-9a-z]+")
# What a call makes; its tags, if it gives any, are those of TagSpecification.
MADE = {
    "CreateVolume": ["volume"], "CreateSnapshot": ["snapshot"], "CopySnapshot": ["snapshot"],
    "CreateImage": ["image", "snapshot"], "CopyImage": ["image", "snapshot"], "CreateVpc": ["vpc"],
    "CreateSubnet": ["subnet"], "CreateSecurityGroup": ["security-group"], "ImportKeyPair": ["key-pair"],
    "CreateInternetGateway": ["internet-gateway"], "CreateRouteTable": ["route-table"],
    "RunInstances": ["instance", "volume", "network-interface", "spot-instances-request"],
}  # fmt: skip
# These have no owner's account in their name.
SHARED = ("image", "snapshot")
OF_EVERYBODY = ("Describe", "GetConsoleOutput", "GetSpotPlacementScores")

# (resource, {condition key: values})
Asked = tuple[str, dict[str, str]]


def denial(call: Call, documents: Iterable[dict[str, Any]]) -> str:
    """What of the call no statement allows, in words; empty when all of it is allowed."""
    statements = [row for document in documents for row in document["Statement"]]
    for action in call.iam_actions():
        for resource, keys in _asked(call, action):
            if not any(_allows(row, action, resource, keys) for row in statements):
                return f"You are not authorized to perform: {action} on resource: {resource} with {keys}"
    return ""


def _allows(statement: dict[str, Any], action: str, resource: str, keys: dict[str, str]) -> bool:
    return (
        statement["Effect"] == "Allow"
        and any(fnmatchcase(action, one) for one in _listed(statement["Action"]))
        and any(fnmatchcase(resource, one) for one in _listed(statement["Resource"]))
        and all(_holds(*row, keys) for row in _conditions(statement))
    )


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _conditions(statement: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for operator, rows in statement.get("Condition", {}).items():
        for key, values in rows.items():
            yield operator, key, _listed(values)


def _holds(operator: str, key: str, values: list[str], keys: dict[str, str]) -> bool:
    """StringEquals and StringLike do not hold for a key that the call lacks."""
    if operator == "Null":
        return (key not in keys) == (values == ["true"])
    judge = {"StringEquals": str.__eq__, "StringLike": fnmatchcase}[operator]
    return key in keys and any(judge(keys[key], value) for value in values)


def _asked(call: Call, action: str) -> list[Asked]:
    """Everything that must be allowed for one action of the call."""
    service, name = action.split(":")
    if action == "iam:PassRole":
        return [(role, {"iam:PassedToService": "ec2.amazonaws.com"}) for role in _passed(call)]
    if action == "ec2:CreateTags":
        return list(_tagged(call))
    reads = {"ec2": _of_ec2, "iam": _of_iam, "s3": _of_s3, "ssm": _of_ssm, "kms": _of_kms}
    everywhere = service not in reads or name.startswith(OF_EVERYBODY) and service == "ec2"
    return [("*", {})] if everywhere else list(reads[service](call))


def _arn(call: Call, kind: str, name: str = "*") -> str:
    account = "" if kind in SHARED else instances.ACCOUNT
    return f"arn:aws:ec2:{call.region}:{account}:{kind}/{name}"


def _of_ec2(call: Call) -> Iterator[Asked]:
    there = list(_there(call))
    given = dict(_given(call))
    made = [(_arn(call, kind), _keys("aws:RequestTag", given.get(kind, {}))) for kind in MADE.get(call.action, ())]
    yield from there + made or [("*", {})]


def _there(call: Call) -> Iterator[Asked]:
    """What is there already and the call touches, each with its tags. What another region has carries no tags here."""
    ec2 = instances.backend(call.region)
    ids = [value for value in call.parameters.values() if isinstance(value, str) and ID.fullmatch(value)]
    ids += [pair.id for name, pair in ec2.key_pairs.items() if name == call.parameters.get("KeyName")]
    ids += [
        table.id for table in ec2.route_tables.values()
        if call.parameters.get("AssociationId") in table._associations
    ]  # fmt: skip
    for one in dict.fromkeys(ids):
        yield _arn(call, KINDS[one.split("-")[0]], one), _keys("aws:ResourceTag", ec2.tags.get(one, {}))


def _keys(prefix: str, tags: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}/{key}": value for key, value in tags.items()}


def _tagged(call: Call) -> Iterator[Asked]:
    """CreateTags itself, or the part of a call that tags what it makes."""
    if call.action == "CreateTags":
        given = _keys("aws:RequestTag", _tags(call, ""))
        for resource, keys in _there(call):
            yield resource, keys | given
    for kind, tags in _given(call):
        yield _arn(call, kind), _keys("aws:RequestTag", tags) | {"ec2:CreateAction": call.action}


def _given(call: Call) -> Iterator[tuple[str, dict[str, str]]]:
    """The tags that a call gives what it makes, by its kind."""
    for number in _numbers(call, "TagSpecification"):
        prefix = f"TagSpecification.{number}."
        yield call.parameters[f"{prefix}ResourceType"], _tags(call, prefix)


def _tags(call: Call, prefix: str) -> dict[str, str]:
    rows = [f"{prefix}Tag.{number}." for number in _numbers(call, f"{prefix}Tag")]
    return {call.parameters[f"{row}Key"]: call.parameters.get(f"{row}Value", "") for row in rows}


def _numbers(call: Call, prefix: str) -> list[str]:
    found = (re.match(rf"{re.escape(prefix)}\.(\d+)\.", key) for key in call.parameters)
    return sorted({one[1] for one in found if one})


def _of_iam(call: Call) -> Iterator[Asked]:
    """A call about a role and a profile is judged by the profile."""
    for key, kind in (("InstanceProfileName", "instance-profile"), ("RoleName", "role")):
        if key in call.parameters:
            yield f"arn:aws:iam::{instances.ACCOUNT}:{kind}/{call.parameters[key]}", {}
            return
    yield "*", {}


def _passed(call: Call) -> list[str]:
    """The role that an instance profile gets, or that an instance gets by it: the kit gives both one name."""
    name = call.parameters.get("RoleName") or call.parameters.get("IamInstanceProfile.Name")
    return [f"arn:aws:iam::{instances.ACCOUNT}:role/{name}"]


def _of_s3(call: Call) -> Iterator[Asked]:
    path = call.parameters["path"].strip("/")
    prefix = parse_qs(call.parameters["query"]).get("prefix", [""])[0]
    bucket = path.split("/")[0]
    keys = call.parameters["keys"]
    for name in [f"{bucket}/{key}" for key in keys] or [path]:
        yield (f"arn:aws:s3:::{name}" if name else "*"), {"s3:prefix": prefix}


def _of_ssm(call: Call) -> Iterator[Asked]:
    name = call.parameters.get("Name", "")
    account = "" if name.startswith("/aws/service/") else instances.ACCOUNT
    yield f"arn:aws:ssm:{call.region}:{account}:parameter{name}", {}


def _of_kms(call: Call) -> Iterator[Asked]:
    yield f"arn:aws:kms:{call.region}:{instances.ACCOUNT}:key/{call.parameters.get('KeyId', '')}", {}
