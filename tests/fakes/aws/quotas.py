"""EC2's quotas in vCPUs, as Service Quotas tells them. Codes and names: the console of Service Quotas."""

import json
from fnmatch import fnmatchcase
from typing import Any

from moto.servicequotas.exceptions import NoSuchResource

from .filters import page
from .world import world

CODES = {
    ("spot", "standard"): ("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
    ("spot", "p"): ("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    ("spot", "p5"): ("L-C4BD4855", "All P5 Spot Instance Requests"),
    ("spot", "g"): ("L-3819A6DF", "All G and VT Spot Instance Requests"),
    ("on_demand", "standard"): ("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
    ("on_demand", "p"): ("L-417A185B", "Running On-Demand P instances"),
    ("on_demand", "g"): ("L-DB2E81BA", "Running On-Demand G and VT instances"),
}
DEFAULT_VCPUS = 1152.0


def family(instance_type: str, market: str) -> str:
    """Which quota an instance type counts against."""
    name = instance_type.split(".")[0]
    if name.startswith("p5") and market == "spot":
        return "p5"
    return name[0] if name[0] in "pg" else "standard"


def limit_vcpus(region: str, market: str, of_family: str) -> float:
    for row in world().scenario.quotas:
        if (row.market, row.family) == (market, of_family) and fnmatchcase(region, row.region):
            return float(row.vcpus)
    return DEFAULT_VCPUS


def _quotas(region: str, applied: bool) -> list[dict[str, Any]]:
    return [
        {
            "ServiceCode": "ec2",
            "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
            "QuotaArn": f"arn:aws:servicequotas:{region}:123456789012:ec2/{code}",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": limit_vcpus(region, *key) if applied else 0.0,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
        for key, (code, name) in CODES.items()
    ]


def _one(call: Any, applied: bool) -> str:
    asked = json.loads(call.body)
    for row in _quotas(call.region, applied):
        if (asked.get("ServiceCode"), asked.get("QuotaCode")) == ("ec2", row["QuotaCode"]):
            return json.dumps({"Quota": row})
    raise NoSuchResource


def _all(call: Any, applied: bool) -> str:
    asked = json.loads(call.body)
    if asked.get("ServiceCode") != "ec2":
        raise NoSuchResource
    most = world().scenario.page_sizes.get("ListServiceQuotas", 100)
    rows, token = page(_quotas(call.region, applied), asked.get("NextToken"), min(most, asked.get("MaxResults", 100)))
    return json.dumps({"Quotas": rows} | ({"NextToken": token} if token else {}))


METHODS = {
    "get_service_quota": lambda call: _one(call, True),
    "get_aws_default_service_quota": lambda call: _one(call, False),
    "list_service_quotas": lambda call: _all(call, True),
    "list_aws_default_service_quotas": lambda call: _all(call, False),
}
