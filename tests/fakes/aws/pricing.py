"""The price list of on-demand instances, with the near misses that it is full of: Windows, dedicated, reserved."""

import json
from functools import cache
from typing import Any

import botocore.session

from .filters import page
from .market import offered, on_demand_price, vcpus
from .world import world

HOME_REGIONS = ("us-east-1", "eu-central-1", "ap-south-1")  # the only ones with the service
# operating system, tenancy, installed software, capacity, factor on the price
VARIANTS = (
    ("Windows", "Shared", "NA", "Used", 1.5),
    ("Linux", "Dedicated", "NA", "Used", 1.1),
    ("Linux", "Shared", "SQL Std", "Used", 2.0),
    ("Linux", "Shared", "NA", "AllocatedCapacityReservation", 0.0),
    ("Linux", "Shared", "NA", "UnusedCapacityReservation", 1.0),
    ("Linux", "Shared", "NA", "Used", 1.0),
)


def get_products(asked: dict[str, Any]) -> dict[str, Any]:
    """GetProducts: a page of products as JSON texts."""
    filters = asked.get("Filters", [])
    rows = [row for row in _products(asked.get("ServiceCode", "")) if all(_passes(row, one) for one in filters)]
    most = world().scenario.page_sizes.get("GetProducts", 100)
    rows, token = page(rows, asked.get("NextToken"), min(most, asked.get("MaxResults", 100)))
    answer: dict[str, Any] = {"FormatVersion": "aws_v1", "PriceList": [json.dumps(row) for row in rows]}
    return answer | ({"NextToken": token} if token else {})


def _passes(product: dict[str, Any], asked: dict[str, str]) -> bool:
    value = product["product"]["attributes"].get(asked["Field"], "").lower()
    wanted = asked["Value"].lower()
    return {
        "TERM_MATCH": value == wanted,
        "EQUALS": value == wanted,
        "CONTAINS": wanted in value,
        "ANY_OF": value in wanted.split(","),
        "NONE_OF": value not in wanted.split(","),
    }[asked["Type"]]


def _products(service: str) -> list[dict[str, Any]]:
    if service != "AmazonEC2":
        return []
    return [
        _product(region, name, price, number)
        for region in world().scenario.region_names()
        for name in offered(region)
        if (price := on_demand_price(region, name)) is not None
        for number in range(len(VARIANTS))
    ]


def _product(region: str, name: str, price: float, number: int) -> dict[str, Any]:
    system, tenancy, software, capacity, factor = VARIANTS[number]
    sku = f"{region}-{name}-{number}".upper()
    attributes = {
        "servicecode": "AmazonEC2",
        "instanceType": name,
        "regionCode": region,
        "location": _location(region),
        "locationType": "AWS Region",
        "operatingSystem": system,
        "tenancy": tenancy,
        "preInstalledSw": software,
        "capacitystatus": capacity,
        "licenseModel": "No License required",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
        "vcpu": str(vcpus(name)),
    }
    dimension = {"unit": "Hrs", "beginRange": "0", "pricePerUnit": {"USD": f"{price * factor:.10f}"}}
    term = {"sku": sku, "offerTermCode": "JRTCKXETXF", "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension}}
    return {
        "product": {"productFamily": "Compute Instance", "sku": sku, "attributes": attributes},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
    }


@cache
def _location(region: str) -> str:
    return str(_regions().get(region, {}).get("description", region)).replace("Europe", "EU")


@cache
def _regions() -> dict[str, dict[str, str]]:
    return dict(botocore.session.get_session().get_data("endpoints")["partitions"][0]["regions"])
