"""What one region tells: zones, offerings, prices, quota, snapshots. Every list is read to its end."""

import textwrap
from datetime import UTC, datetime, timedelta
from functools import partial

from ansible.module_utils.market_prices import LINUX, parse_usd
from botocore.exceptions import ClientError

# As far back as AWS keeps prices: so a stale one can be told from none at all.
HISTORY = timedelta(days=90)
# A row of the history that lacks one of them tells no price.
PRICE_ROW = {"AvailabilityZone", "InstanceType", "Timestamp", "ProductDescription", "SpotPrice"}
# All P Spot Instance Requests; All G and VT Spot Instance Requests.
SPOT_QUOTAS = {"p": "L-7212CCBC", "g": "L-3819A6DF"}
# What a region answers whoever looks for instances when this account may not use it: nothing of the kit's is there.
DENIED = ("AuthFailure", "UnauthorizedOperation", "UnrecognizedClientException", "OptInRequired")


def read_region(client, region, wanted):
    """The region's part of the survey. Errors of zones, offerings and prices are raised; the others become notes."""
    ec2 = client("ec2", region)
    offerings = read_offerings(ec2, wanted["known_types"])
    types = sorted(set(offerings) & set(wanted["types"]))
    found = {"offerings": offerings, "zones": {}, "types": {}, "prices": [], "quotas": {}, "notes": []}
    if types:
        found["zones"] = read_zones(ec2)
        found["prices"] = read_prices(ec2, types)
        found["types"] = _or_note(found, "instance types", {}, partial(read_types, ec2, types))
        quotas = client("service-quotas", region)
        for family in sorted({name[0] for name in types} & set(SPOT_QUOTAS)):
            what = f"Spot quota of {family.upper()} instances"
            found["quotas"][family] = _or_note(found, what, None, partial(read_quota, quotas, family))
    found["snapshots"] = _or_note(found, "snapshots", [], partial(read_snapshots, ec2, wanted, found["notes"]))
    found["copy_key"] = ""
    if types and not found["snapshots"] and wanted["kms_key_alias"]:
        found["copy_key"] = read_copy_key(client("kms", region), wanted["kms_key_alias"])
    return found


def _or_note(found, what, otherwise, read):
    try:
        return read()
    # An answer that nobody expected is no reason to lose the region either.
    except Exception as error:
        found["notes"].append(f"its {what} could not be read: {in_words(error)}")
        return otherwise


def in_words(error):
    """Why a call failed, in one line that is not too long."""
    if not isinstance(error, ClientError):
        return _one_line(f"{type(error).__name__}: {error}")
    code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    retries = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
    return _one_line(f"{code}: {message}") + (f" (tried {retries + 1} times)" if retries else "")


def _one_line(text):
    return textwrap.shorten(text, 200, placeholder=" ...")


def _pages(client, operation, key, **arguments):
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page[key]


def read_offerings(ec2, types):
    """{type: [zones]}; no key for a type that is not offered."""
    rows = _pages(
        ec2, "describe_instance_type_offerings", "InstanceTypeOfferings", LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": sorted(types)}],
    )
    found = {}
    for row in rows:
        if row["InstanceType"] in types:
            found.setdefault(row["InstanceType"], []).append(row["Location"])
    return found


def read_zones(ec2):
    """{name: {"id", "type"}} of the zones that the account can use, local zones that it opted into among them."""
    rows = ec2.describe_availability_zones()["AvailabilityZones"]
    return {
        row["ZoneName"]: {"id": row.get("ZoneId"), "type": row.get("ZoneType", "availability-zone")} for row in rows
    }


def read_types(ec2, types):
    """{type: {"vcpus", "spot" (whether AWS offers it as spot)}}."""
    rows = _pages(
        ec2, "describe_instance_types", "InstanceTypes", Filters=[{"Name": "instance-type", "Values": types}]
    )
    return {
        row["InstanceType"]: {
            "vcpus": row.get("VCpuInfo", {}).get("DefaultVCpus"),
            "spot": "spot" in row.get("SupportedUsageClasses", ["spot"]),
        }
        for row in rows
    }


def read_prices(ec2, types):
    """The price history's rows, as market_prices.py wants them."""
    rows = _pages(
        ec2, "describe_spot_price_history", "SpotPriceHistory", InstanceTypes=types, ProductDescriptions=list(LINUX),
        StartTime=datetime.now(UTC) - HISTORY,
    )
    return [
        {
            "zone": row["AvailabilityZone"], "instance_type": row["InstanceType"], "at": row["Timestamp"],
            "description": row["ProductDescription"], "usd": parse_usd(row["SpotPrice"]),
        }
        for row in rows if set(row) >= PRICE_ROW
    ]


def read_quota(quotas, family):
    """vCPUs that spot instances of a family may have here."""
    return int(quotas.get_service_quota(ServiceCode="ec2", QuotaCode=SPOT_QUOTAS[family])["Quota"]["Value"])


def read_snapshots(ec2, wanted, notes):
    """The complete snapshots of the data set, found by id or by all tags; a note for each that is not complete."""
    tags = [{"Name": f"tag:{key}", "Values": [str(value)]} for key, value in sorted(wanted["snapshot_tags"].items())]
    rows = list(_pages(ec2, "describe_snapshots", "Snapshots", OwnerIds=["self"], Filters=tags)) if tags else []
    if wanted["snapshot_id"]:
        rows += _snapshot_by_id(ec2, wanted["snapshot_id"])
    notes += [
        f"its snapshot {row['SnapshotId']} is not complete ({row['State']}: {row.get('StateMessage', '')})"
        for row in rows if row["State"] != "completed"
    ]
    return [
        {
            "id": snapshot_id, "size_gb": row["VolumeSize"], "encrypted": row.get("Encrypted", False),
            "kms_key_id": row.get("KmsKeyId"),
        }
        for snapshot_id, row in {row["SnapshotId"]: row for row in rows if row["State"] == "completed"}.items()
    ]


def _snapshot_by_id(ec2, snapshot_id):
    try:
        return ec2.describe_snapshots(SnapshotIds=[snapshot_id])["Snapshots"]
    except ClientError as error:
        if error.response["Error"]["Code"] in ("InvalidSnapshot.NotFound", "InvalidSnapshotID.NotFound"):
            return []
        raise


def read_copy_key(kms, alias):
    """Why a copy cannot be encrypted with that key here; empty when it can, or when nobody may look."""
    try:
        is_enabled = kms.describe_key(KeyId=alias)["KeyMetadata"]["Enabled"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "NotFoundException":
            return f"there is no key {alias}"
        return ""
    return "" if is_enabled else f"its key {alias} is not enabled"
