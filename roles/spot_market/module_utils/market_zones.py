"""Where in a region a type can be had, and why not elsewhere. Pure.

`found` is a region's part of the survey (module_utils/spot_survey.py).
"""

from ansible.module_utils.market_types import family, vcpus


def is_in_a_zone(found, instance_type):
    """Whether it is offered in more than local zones."""
    return any(not _zone_kind(found, zone) for zone in found["offerings"][instance_type])


def zones_of(found, instance_type):
    """Where the type is offered, or has a price."""
    priced = {row["zone"] for row in found["prices"] if row["instance_type"] == instance_type}
    return priced | set(found["offerings"][instance_type])


def zone_refusal(found, zone, instance_type):
    kind = _zone_kind(found, zone)
    if kind:
        return f"it is a {kind}, and the kit rents in availability zones only"
    if zone not in found["offerings"][instance_type]:
        return "not offered in this zone"
    if not found["types"].get(instance_type, {}).get("spot", True):
        return "AWS does not offer this type as spot"
    return ""


def _zone_kind(found, zone):
    """What it is when it is no availability zone: a local zone, a wavelength zone. Empty otherwise."""
    kind = found["zones"].get(zone, {}).get("type", "availability-zone")
    return "" if kind == "availability-zone" else kind.replace("-", " ")


def quota_refusal(found, request, instance_type):
    """A quota that is too small stays so until somebody has it raised: no reason to try again."""
    quota, needed = found["quotas"].get(family(instance_type)), vcpus(found, request, instance_type)
    if quota is None or quota >= needed:
        return ""
    return (
        f"the account's Spot quota for {family(instance_type).upper()} instances is {quota} vCPUs here, and this type "
        f"needs {needed}; ask AWS to raise it (Service Quotas)"
    )
