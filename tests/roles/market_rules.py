"""Small surveys of the market, for the pure modules of the role spot_market."""

from datetime import UTC, datetime, timedelta

import yaml
from playing import PROJECT, ROLES

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
PROFILES = yaml.safe_load((PROJECT / "inventory/aws/group_vars/all/instance_profiles.yml").read_text())[
    "instance_profiles"
]
VARS = yaml.safe_load((ROLES / "spot_market/vars/main.yml").read_text())
RATES, TABLE = VARS["__spot_market_rates"], VARS["__spot_market_on_demand"]
P2 = "p2.16xlarge"


def price(usd, hours_ago=1.0, zone="us-west-2a", instance_type=P2, description="Linux/UNIX"):
    at = NOW - timedelta(hours=hours_ago)
    return {"zone": zone, "instance_type": instance_type, "description": description, "usd": usd, "at": at}


def region(*prices, types=(P2,), zones=("us-west-2a",), **more):
    """A region that was surveyed: it offers those types in those zones."""
    return {
        "state": "surveyed", "reason": "", "seconds": 1.0,
        "zones": {zone: {"id": f"id-{zone}", "type": "availability-zone"} for zone in zones},
        "offerings": {name: list(zones) for name in types},
        "types": {}, "prices": list(prices), "quotas": {"p": 640, "g": 640}, "snapshots": [], "copy_key": "",
    } | more  # fmt: skip


def survey(on_demand=14.4, **regions):
    """A survey of regions by their names with _ for -."""
    names = {name.replace("_", "-"): found for name, found in regions.items()}
    return {
        "now": NOW, "regions": names, "scores": {}, "notes": [],
        "on_demand": {P2: dict.fromkeys(names, on_demand)} if on_demand else {},
    }  # fmt: skip


def snapshot(size_gb=150, encrypted=False):
    return {"id": "snap-1", "size_gb": size_gb, "encrypted": encrypted, "kms_key_id": None}


def request(**changes):
    return {
        "instance_types": [P2], "profiles": PROFILES, "snapshot_id": "", "snapshot_tags": {"dataset": "imagenet"},
        "dataset_gb": 150, "kms_key_alias": "", "epochs": 100.0, "images": 1281167, "attained_share": 0.9,
        "measured_images_per_second": {}, "interruptions_per_hour": None, "checkpoint_interval_seconds": 60.0,
        "max_price_usd": None, "max_price_by_region_usd": {}, "deadline": None, "budget_usd": None, "rates": RATES,
        "on_demand_table": TABLE,
    } | changes  # fmt: skip
