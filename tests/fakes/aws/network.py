"""Networks by AWS's rules: nothing that something else hangs on can be deleted."""

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.responses.internet_gateways import InternetGateways
from moto.ec2.responses.security_groups import SecurityGroups
from moto.ec2.responses.subnets import Subnets
from moto.ec2.responses.vpcs import VPCs


def _violation(text: str) -> EC2ClientError:
    return EC2ClientError("DependencyViolation", text)


def _cards(call: EC2Response) -> list[Any]:
    return list(call.ec2_backend.get_all_network_interfaces())


def create_subnet(call: EC2Response) -> Any:
    """To moto the first subnet of a zone is the default one, and gives public addresses."""
    made = Subnets.create_subnet(call)
    subnet = made.result["Subnet"]
    subnet.default_for_az, subnet.map_public_ip_on_launch = False, False
    return made


def delete_subnet(call: EC2Response) -> Any:
    subnet = call._get_param("SubnetId")
    if any(card.subnet.id == subnet for card in _cards(call)):
        raise _violation(f"The subnet '{subnet}' has dependencies and cannot be deleted.")
    return Subnets.delete_subnet(call)


def delete_security_group(call: EC2Response) -> Any:
    group = call._get_param("GroupId")
    found = call.ec2_backend.get_security_group_from_id(group)
    if found and found.name == "default":
        raise EC2ClientError("CannotDelete", "the specified group: default name: default cannot be deleted by a user")
    if any(group in (one.id for one in card.group_set) for card in _cards(call)):
        raise _violation(f"resource {group} has a dependent object")
    return SecurityGroups.delete_security_group(call)


def detach_internet_gateway(call: EC2Response) -> Any:
    vpc = call._get_param("VpcId")
    if any(card.subnet.vpc_id == vpc and card.public_ip for card in _cards(call)):
        raise _violation(f"Network {vpc} has some mapped public address(es). Please unmap those first.")
    return InternetGateways.detach_internet_gateway(call)


def delete_vpc(call: EC2Response) -> Any:
    vpc, ec2 = call._get_param("VpcId"), call.ec2_backend
    gateways = [one for one in ec2.internet_gateways.values() if one.vpc and one.vpc.id == vpc]
    groups = [one for one in ec2.groups.get(vpc, {}).values() if one.name != "default"]
    if gateways or groups:
        raise _violation(f"The vpc '{vpc}' has dependencies and cannot be deleted.")
    return VPCs.delete_vpc(call)
