"""Launches by AWS's rules: an offer in the zone, capacity, quota, price."""

from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.responses.instances import InstanceResponse
from moto.iam.models import iam_backends

from . import market, quotas, spot
from .instances import ACCOUNT, ALIVE, all_instances, started
from .regions import main_zones
from .world import world


def run_instances(call: EC2Response) -> ActionResult:
    zone = _choose_zone(call)
    kind = "spot" if call._get_param("InstanceMarketOptions.MarketType") == "spot" else "on_demand"
    check_launch(call.region, zone, call._get_param("InstanceType", "m1.small"), kind, _count(call), _most_usd(call))
    _check_profile(call)
    for mapping in call._get_param("BlockDeviceMappings", []):
        mapping.get("Ebs", {}).setdefault("DeleteOnTermination", True)
    result = InstanceResponse.run_instances(call)
    for instance in result.result.instances:
        instance.client_token = call._get_param("ClientToken", "")
        started(instance, kind)
        if kind == "spot":
            spot.adopt(instance, call)
    return result


def check_not_over(answer: ActionResult) -> None:
    """A token whose instances have ended launches nothing more."""
    if all(instance.state == "terminated" for instance in answer.result.instances):
        text = "The client token was used by a request whose instances have been terminated"
        raise EC2ClientError("IdempotentInstanceTerminated", text)


def _check_profile(call: EC2Response) -> None:
    """EC2 hears of a new instance profile late, as the scenario says."""
    name = call._get_param("IamInstanceProfile.Name") or call._get_param("IamInstanceProfile.Arn", "").split("/")[-1]
    profiles = iam_backends[ACCOUNT]["aws"].instance_profiles.values()
    for profile in profiles:
        age = (utcnow() - profile.create_date).total_seconds()
        if profile.name == name and age < world().timing(call.region).profiles:
            text = f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            raise EC2ClientError("InvalidParameterValue", text)


def _count(call: EC2Response) -> int:
    return int(call._get_param("MinCount", 1))


def _most_usd(call: EC2Response) -> float | None:
    price = call._get_param("InstanceMarketOptions.SpotOptions.MaxPrice")
    return float(price) if price else None


def _choose_zone(call: EC2Response) -> str:
    """The zone asked for, or the first that offers the type; written into the parameters for moto."""
    cards = call._get_param("NetworkInterfaces", [])
    if subnet := call._get_param("SubnetId") or next((card.get("SubnetId") for card in cards), None):
        return str(call.ec2_backend.get_subnet(subnet).availability_zone)
    zones = [zone for _, _, zone in market.offers(call.region, call._get_param("InstanceType", ""))]
    zone = call._get_param("Placement.AvailabilityZone") or next(iter(zones), main_zones(call.region)[0])
    call.params.setdefault("Placement", {})["AvailabilityZone"] = zone
    return str(zone)


def check_launch(region: str, zone: str, name: str, kind: str, count: int, most_usd: float | None) -> None:
    """Raises what AWS answers to a launch that cannot be; most_usd is the most that the caller pays an hour."""
    rows = [offer for offer, _, at in market.offers(region, name) if at == zone]
    if not rows:
        others = ", ".join(sorted({at for _, _, at in market.offers(region, name)})) or "another region"
        text = f"Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone})."
        raise EC2ClientError("Unsupported", f"{text} Please retry your request by choosing {others}.")
    price = market.spot_price(region, zone, name)
    if kind == "spot" and most_usd is not None and price is not None and most_usd < price:
        text = f"Your Spot request price of {most_usd} is lower than the minimum required Spot request"
        raise EC2ClientError("SpotMaxPriceTooLow", f"{text} fulfillment price of {price}.")
    _check_quota(region, name, kind, count)
    limits = [row.spot_capacity if kind == "spot" else row.on_demand_capacity for row in rows]
    most = min((value for series in limits if (value := world().now(series)) is not None), default=None)
    if most is not None and _alive(region, kind, zone, name) + count > most:
        raise _no_capacity(kind, zone, name)


def _no_capacity(kind: str, zone: str, name: str) -> Exception:
    text = f"We currently do not have sufficient {name} capacity in the Availability Zone you requested ({zone})."
    if kind == "spot":
        text = "There is no Spot capacity available that matches your request."
    return EC2ClientError("InsufficientInstanceCapacity", text)


def _check_quota(region: str, name: str, kind: str, count: int) -> None:
    family = quotas.family(name, kind)
    used = sum(
        market.vcpus(one.instance_type)
        for one in all_instances(region)
        if one.state in ALIVE and _kind(one) == kind and quotas.family(one.instance_type, kind) == family
    )
    limit = quotas.limit_vcpus(region, kind, family)
    if used + count * market.vcpus(name) > limit:
        if kind == "spot":
            raise EC2ClientError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
        text = f"You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows"
        raise EC2ClientError("VcpuLimitExceeded", f"{text} for the instance bucket that the type belongs to.")


def _kind(instance: Any) -> str:
    return "spot" if instance.lifecycle == "spot" else "on_demand"


def _alive(region: str, kind: str, zone: str, name: str) -> int:
    alive = [one for one in all_instances(region) if one.state in ALIVE]
    return sum((_kind(one), one.availability_zone, one.instance_type) == (kind, zone, name) for one in alive)
