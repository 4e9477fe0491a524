"""Regions and zones as the scenario says."""

from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import RegionsAndZonesBackend as Moto
from moto.ec2.models.availability_zones_and_regions import Region, Zone

from .filters import keep
from .scenario import Region as RegionTable
from .scenario import Scenario
from .world import world

_MOTO_ZONES = {name: list(zones) for name, zones in Moto.zones.items()}


def set_regions(scenario: Scenario) -> None:
    """Tells moto which regions and zones there are, so that it makes default subnets in them."""
    tables = {name: scenario.regions.get(name, RegionTable()) for name in scenario.region_names()}
    Moto.regions = [Region(name, f"ec2.{name}.amazonaws.com", table.opt_in) for name, table in tables.items()]
    Moto.zones = _MOTO_ZONES | {name: _zones(name, table) for name, table in tables.items()}


def _zones(region: str, table: RegionTable) -> list[Zone]:
    if not table.zones and region in _MOTO_ZONES:
        return _MOTO_ZONES[region]
    zones = table.zones or {f"{region}{letter}": f"{region}-az-{letter}" for letter in "abc"}
    return [Zone(name, region, zone_id) for name, zone_id in zones.items()]


def zone_ids(region: str) -> dict[str, str]:
    """Zone name -> zone id, local zones included."""
    local = world().scenario.regions.get(region, RegionTable()).local_zones
    return {zone.name: zone.zone_id for zone in Moto.zones[region]} | local


def main_zones(region: str) -> list[str]:
    return [zone.name for zone in Moto.zones[region]]


def describe_regions(call: Any) -> dict[str, Any]:
    call.error_on_dryrun()
    rows = [
        {"RegionName": region.name, "Endpoint": region.endpoint, "OptInStatus": region.opt_in_status}
        for region in Moto.regions
    ]
    wanted = call._get_param("RegionNames", [])
    unknown = sorted(set(wanted) - {row["RegionName"] for row in rows})
    if unknown:
        raise EC2ClientError("InvalidParameterValue", f"Invalid region provided: [{', '.join(unknown)}]")
    if not call._get_param("AllRegions", False):
        rows = [row for row in rows if row["OptInStatus"] != "not-opted-in"]
    keys = {
        "region-name": lambda row: row["RegionName"],
        "endpoint": lambda row: row["Endpoint"],
        "opt-in-status": lambda row: row["OptInStatus"],
    }
    rows = keep(rows, call._get_param("Filters", []), keys)
    return {"Regions": [row for row in rows if not wanted or row["RegionName"] in wanted]}


ZONE_KEYS = {
    "group-name": lambda row: row["GroupName"],
    "opt-in-status": lambda row: row["OptInStatus"],
    "region-name": lambda row: row["RegionName"],
    "state": lambda row: row["State"],
    "zone-id": lambda row: row["ZoneId"],
    "zone-name": lambda row: row["ZoneName"],
    "zone-type": lambda row: row["ZoneType"],
}


def describe_availability_zones(call: Any) -> dict[str, Any]:
    call.error_on_dryrun()
    rows = [_zone_row(call.region, name, zone_id) for name, zone_id in zone_ids(call.region).items()]
    if not call._get_param("AllAvailabilityZones", False):
        rows = [row for row in rows if row["OptInStatus"] != "not-opted-in"]
    names, ids = call._get_param("ZoneNames", []), call._get_param("ZoneIds", [])
    unknown = sorted(set(names) - {row["ZoneName"] for row in rows})
    if unknown:
        raise EC2ClientError("InvalidParameterValue", f"Invalid availability zone: [{', '.join(unknown)}]")
    rows = keep(rows, call._get_param("Filters", []), ZONE_KEYS)
    return {
        "AvailabilityZones": [
            row
            for row in rows
            if (not names or row["ZoneName"] in names) and (not ids or row["ZoneId"] in ids)
        ]
    }


def _zone_row(region: str, name: str, zone_id: str) -> dict[str, Any]:
    table = world().scenario.regions.get(region, RegionTable())
    local = name in table.local_zones
    opted_in = "opted-in" if table.local_zones_opted_in else "not-opted-in"
    return {
        "State": "available",
        "OptInStatus": opted_in if local else "opt-in-not-required",
        "Messages": [],
        "RegionName": region,
        "ZoneName": name,
        "ZoneId": zone_id,
        "GroupName": name[:-1] if local else region,
        "NetworkBorderGroup": name[:-1] if local else region,
        "ZoneType": "local-zone" if local else "availability-zone",
    }
