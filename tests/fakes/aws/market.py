"""The spot market: who offers what where, and for how much. Nothing here is moto's."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import instance_types as moto_types

from .filters import keep
from .regions import describe_regions, main_zones, zone_ids
from .scenario import InstanceType, Offer, Scenario
from .world import world

# GPU types that moto does not know: vCPUs, MiB, GPU, count, MiB a GPU. Source: AWS's pages of the P2, P3 and G3 types.
OLD_TYPES = {
    "p2.xlarge": (4, 62464, "K80", 1, 12288),
    "p2.8xlarge": (32, 499712, "K80", 8, 12288),
    "p2.16xlarge": (64, 749568, "K80", 16, 12288),
    "p3.2xlarge": (8, 62464, "V100", 1, 16384),
    "p3.8xlarge": (32, 249856, "V100", 4, 16384),
    "p3.16xlarge": (64, 499712, "V100", 8, 16384),
    "g3s.xlarge": (4, 31232, "M60", 1, 8192),
    "g3.4xlarge": (16, 124928, "M60", 1, 8192),
    "g3.8xlarge": (32, 249856, "M60", 2, 8192),
    "g3.16xlarge": (64, 499712, "M60", 4, 8192),
}


def set_instance_types(scenario: Scenario) -> None:
    """Tells moto the instance types that it lacks, and who offers what."""
    old = {
        name: InstanceType(
            vcpus=vcpus, memory_mib=mib, gpu=gpu, gpus=gpus, gpu_memory_mib=gpu_mib, hypervisor="xen"
        )
        for name, (vcpus, mib, gpu, gpus, gpu_mib) in OLD_TYPES.items()
    }
    for name, table in (old | scenario.instance_types).items():
        moto_types.INSTANCE_TYPES[name] = _type_row(name, table)
    moto_types.InstanceTypeBackend.instance_types = [moto_types.InstanceType(n) for n in moto_types.INSTANCE_TYPES]
    for region in scenario.region_names():
        rows = sorted({(name, zone) for _, name, zone in offers(region)})
        places = moto_types.INSTANCE_TYPE_OFFERINGS
        places["availability-zone"][region] = [{"InstanceType": name, "Location": zone} for name, zone in rows]
        places["region"][region] = [{"InstanceType": name, "Location": region} for name in offered(region)]


def _type_row(name: str, table: InstanceType) -> dict[str, Any]:
    memory = {"SizeInMiB": table.gpu_memory_mib}
    gpu = {"Name": table.gpu, "Manufacturer": "NVIDIA", "Count": table.gpus, "MemoryInfo": memory}
    row = {
        "InstanceType": name,
        "CurrentGeneration": False,
        "BareMetal": False,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedRootDeviceTypes": ["ebs"],
        "Hypervisor": table.hypervisor,
        "ProcessorInfo": {"SupportedArchitectures": [table.architecture]},
        "VCpuInfo": {"DefaultVCpus": table.vcpus},
        "MemoryInfo": {"SizeInMiB": table.memory_mib},
        "EbsInfo": {"NvmeSupport": "required" if table.hypervisor == "nitro" else "unsupported"},
    }
    total = table.gpu_memory_mib * table.gpus
    return row | ({"GpuInfo": {"Gpus": [gpu], "TotalGpuMemoryInMiB": total}} if table.gpus else {})


def vcpus(instance_type: str) -> int:
    return int(moto_types.INSTANCE_TYPES[instance_type]["VCpuInfo"]["DefaultVCpus"])


def offers(region: str, instance_type: str = "") -> Iterator[tuple[Offer, str, str]]:
    """(offer, instance type, zone) for all that a region offers, or for one type."""
    for offer in world().scenario.offers:
        if offer.region == region:
            for zone in offer.zones or main_zones(region):
                yield from ((offer, name, zone) for name in offer.instance_types if instance_type in ("", name))


def offered(region: str) -> list[str]:
    return sorted({name for _, name, _ in offers(region)})


def spot_price(region: str, zone: str, instance_type: str) -> float | None:
    """The price now of the Linux description that the scenario names first."""
    prices = (world().now(offer.spot_usd_per_hour) for offer, _, at in offers(region, instance_type) if at == zone)
    return next((price for price in prices if price is not None), None)


def on_demand_price(region: str, instance_type: str) -> float | None:
    rows = (offer.on_demand_usd_per_hour for offer, _, _ in offers(region, instance_type))
    return next((price for price in rows if price is not None), None)


PRICE_KEYS = {
    "availability-zone": lambda row: row["AvailabilityZone"],
    "availability-zone-id": lambda row: row["AvailabilityZoneId"],
    "instance-type": lambda row: row["InstanceType"],
    "product-description": lambda row: row["ProductDescription"],
    "spot-price": lambda row: row["SpotPrice"],
    "timestamp": lambda row: row["Timestamp"],
}


def describe_spot_price_history(call: Any) -> dict[str, Any]:
    """Changes of price from StartTime to EndTime, newest first, and the price that held at StartTime."""
    call.error_on_dryrun()
    start = _offset(call._get_param("StartTime"), -90 * 86400)
    end = min(_offset(call._get_param("EndTime"), world().offset()), world().offset())
    rows = [row for offer in offers(call.region) for row in _price_rows(call.region, *offer, start, end)]
    exact = {
        "instance-type": call._get_param("InstanceTypes", []),
        "product-description": call._get_param("ProductDescriptions", []),
        "availability-zone": [zone] if (zone := call._get_param("AvailabilityZone")) else [],
        "availability-zone-id": [zone] if (zone := call._get_param("AvailabilityZoneId")) else [],
    }
    rows = [row for row in rows if all(PRICE_KEYS[key](row) in values for key, values in exact.items() if values)]
    rows = keep(rows, call._get_param("Filters", []), PRICE_KEYS)
    return {"SpotPriceHistory": sorted(rows, key=lambda row: row["Timestamp"], reverse=True)}


def _offset(time: Any, default: float) -> float:
    if not time:
        return default
    moment = datetime.fromisoformat(time) if isinstance(time, str) else time
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.timestamp() - world().started


def _price_rows(region: str, offer: Offer, name: str, zone: str, start: float, end: float) -> Iterator[dict[str, Any]]:
    held = max((since for since, _ in offer.spot_usd_per_hour if since <= start), default=start)
    for since, price in offer.spot_usd_per_hour:
        if held <= since <= end:
            time = datetime.fromtimestamp(world().started, UTC) + timedelta(seconds=since)
            for description in offer.descriptions:
                yield {
                    "AvailabilityZone": zone,
                    "AvailabilityZoneId": zone_ids(region)[zone],
                    "InstanceType": name,
                    "ProductDescription": description,
                    "SpotPrice": f"{price:.6f}",
                    "Timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                }


def describe_instance_types(call: Any) -> dict[str, Any]:
    call.error_on_dryrun()
    wanted = call._get_param("InstanceTypes", [])
    known = offered(call.region)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        text = f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
        raise EC2ClientError("InvalidInstanceType", text)
    filters = call._filters_from_querystring()
    rows = call.ec2_backend.describe_instance_types(wanted or known, filters)
    return {"InstanceTypes": [row for row in rows if row["InstanceType"] in known]}


def describe_instance_type_offerings(call: Any) -> dict[str, Any]:
    call.error_on_dryrun()
    kind = call._get_param("LocationType", "region")
    place = {
        "region": lambda zone: call.region,
        "availability-zone": lambda zone: zone,
        "availability-zone-id": lambda zone: zone_ids(call.region)[zone],
    }[kind]
    found = sorted({(name, place(zone)) for _, name, zone in offers(call.region)})
    rows = [{"InstanceType": name, "LocationType": kind, "Location": at} for name, at in found]
    keys = {"instance-type": lambda row: row["InstanceType"], "location": lambda row: row["Location"]}
    return {"InstanceTypeOfferings": keep(rows, call._get_param("Filters", []), keys)}


def get_spot_placement_scores(call: Any) -> dict[str, Any]:
    """The ten best places, best first: AWS tells of no more."""
    call.error_on_dryrun()
    types = call._get_param("InstanceTypes", [])
    regions = call._get_param("RegionNames", []) or [row["RegionName"] for row in describe_regions(call)["Regions"]]
    scores: dict[tuple[str, str], int] = {}
    for region in regions:
        for offer, name, zone in offers(region):
            if name in types:
                key = (region, zone_ids(region)[zone] if call._get_param("SingleAvailabilityZone", False) else "")
                scores[key] = max(scores.get(key, 1), offer.score)
    rows = [
        {"Region": region, "Score": score} | ({"AvailabilityZoneId": zone} if zone else {})
        for (region, zone), score in scores.items()
    ]
    return {"SpotPlacementScores": sorted(rows, key=lambda row: -row["Score"])[:10]}
