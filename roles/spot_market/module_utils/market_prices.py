"""Prices as AWS tells them -> one price a zone, what it did in the last week, and the price on demand. Pure.

A row of the price history: {"zone", "instance_type", "description", "usd" (an hour), "at" (a datetime with time zone)}.
It holds until the next row of its zone and type; AWS writes one only when the price changes.
"""

import json
import math
from datetime import timedelta

# What a Linux machine in a VPC costs stands under either name, by the account's age; the newest row counts.
LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
STALE = timedelta(days=30)
WEEK = timedelta(days=7)
CLOCKS_DIFFER = timedelta(minutes=5)


def linux_rows(rows, zone, instance_type, now):
    """The rows that count for a machine there, oldest first; without those that have no price or are of the future."""
    mine = [
        row for row in rows
        if row["zone"] == zone and row["instance_type"] == instance_type and row["description"] in LINUX
        and is_price(row["usd"]) and row["at"] <= now + CLOCKS_DIFFER
    ]
    # Two of the same moment: the dearer one counts, for a plan should not promise too much.
    return sorted(mine, key=lambda row: (row["at"], row["usd"]))


def parse_usd(text):
    """0, which is no price, for what is no number."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return 0.0


def is_price(usd):
    """0, a negative number, NaN and infinity are no prices: what they stand for is unknown."""
    return 0 < usd < math.inf


def price_now(rows, now):
    """(newest row, "") or (None, why there is no price). rows: of linux_rows."""
    if not rows:
        return None, "the spot price is unknown: AWS has no row for it"
    newest = rows[-1]
    if now - newest["at"] > STALE:
        return None, (
            f"the spot price is stale: its newest row is of {newest['at']:%Y-%m-%d}, more than {STALE.days} days ago"
        )
    return newest, ""


def last_week(rows, now):
    """(median, worst) in USD an hour over the last 7 days, weighted by how long each price held."""
    held = sorted(_held(rows, now - WEEK, now))
    half, seconds = sum(duration for _, duration in held) / 2, 0.0
    for price, duration in held:
        seconds += duration
        if seconds >= half:
            return price, held[-1][0]
    raise ValueError("rows must not be empty")


def _held(rows, start, end):
    """[(price, seconds within the period)]; what held when it began counts from its begin, the last row always."""
    ends = [row["at"] for row in rows[1:]] + [end]
    for row, until in zip(rows, ends, strict=True):
        seconds = (min(until, end) - max(row["at"], start)).total_seconds()
        if seconds > 0 or row is rows[-1]:
            yield row["usd"], max(seconds, 0.0)


def on_demand_prices(price_list, instance_type):
    """{region: USD an hour} of a type with Linux, shared tenancy, from the pricing API's products (JSON texts)."""
    found = {}
    for product in map(json.loads, price_list):
        attributes = product["product"]["attributes"]
        if _is_plain_linux(attributes, instance_type):
            for usd in _hourly_prices(product):
                found[attributes["regionCode"]] = usd
    return found


def _is_plain_linux(attributes, instance_type):
    expected = {
        "instanceType": instance_type, "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
        "capacitystatus": "Used", "locationType": "AWS Region",
    }
    return "regionCode" in attributes and all(attributes.get(key, value) == value for key, value in expected.items())


def _hourly_prices(product):
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = parse_usd(dimension.get("pricePerUnit", {}).get("USD"))
            if is_price(usd) and dimension.get("unit", "Hrs") == "Hrs":
                yield usd
