"""The ledger's rows -> what they have cost. Pure; every rate comes from the caller (spot_market's table).

Instances: each second at the price in force in it, at least 60 s; nothing for a spot instance that AWS took back within
its first hour. Sources: AWS, "How Spot Instances Work" ("the Spot price that's in effect, billed to the nearest
second") and, in the EC2 User Guide, "Billing for interrupted Spot Instances"; the EC2 price page for the minute.
Volumes and snapshots: GB-months; a copied snapshot also what leaves the region that it came from.
"""

from ansible.module_utils.run_costs import HOURS_A_MONTH, copy_usd_per_gb, usd_per_gb_month

HOUR = 3600
LEAST_SECONDS = 60
END_REMARKS = {
    "seen": "at least: its end is not known, it was last seen then",
    "about": "its end is known to the hour only",
}
ESTIMATE = "an estimate: the region's own price is not known, this is that of us-east-1"


def bill_rows(rows, rates, now):
    """Oldest first: [{"kind" (instance, volume, snapshot, copy), "id", "region", "zone", "from", "until", "alive",
    "hours", "usd" (None where the price is unknown), "is_least" (whether it may have cost more), "on_demand_usd",
    "remark", and what its kind has beside that}].
    Of volumes and snapshots also `is_estimate`: whether the price is that of another region.
    Of instances also `usd_per_hour`, the newest price, and `on_demand_usd_per_hour`.
    """
    bill = []
    for row in sorted(rows.values(), key=lambda row: (row["from"], row["key"])):
        fact = {key: row.get(key) for key in ("kind", "id", "region", "zone", "from", "until", "alive")}
        fact["hours"] = max(0, _end(row, now) - row["from"]) / HOUR
        fact["is_least"] = row.get("until_is") == "seen"
        if row["kind"] == "instance":
            bill.append(fact | _instance(row, now))
        else:
            bill.append(fact | _stored(row, fact["hours"], rates))
            bill += [_copy(row, fact, rates)] if row.get("copied_from") else []
    return bill


def total(rows, key="usd"):
    """Dollars of all rows whose price is known."""
    return round(sum(row[key] for row in rows if row[key] is not None), 6)


def _end(row, now):
    return now if row["until"] is None else row["until"]


def _instance(row, now):
    end = max(_end(row, now), row["from"] + LEAST_SECONDS)
    on_demand, free = row.get("on_demand_usd_per_hour"), is_free(row)
    hourly = None if on_demand is None else on_demand * (end - row["from"]) / HOUR
    own = 0.0 if free else spot_usd(row["from"], end, row["spot_prices"]) if row["market"] == "spot" else hourly
    remark = "taken back by AWS within the first hour: free" if free else _end_remark(row)
    return {
        "instance_type": row["instance_type"], "market": row["market"], "usd": own, "on_demand_usd": hourly,
        "on_demand_usd_per_hour": on_demand,
        "usd_per_hour": on_demand if row["market"] == "on_demand" else max(row["spot_prices"], default=(0, None))[1],
        "remark": "price unknown: not in the sum" if own is None else remark,
    }


def is_free(row):
    return bool(
        row["market"] == "spot" and row["interrupted"] and row["until"] is not None
        and row["until"] - row["from"] < HOUR
    )


def spot_usd(start, end, prices):
    """Dollars from start to end (unix seconds) at prices [[since, USD an hour]]; None without any price."""
    if not prices:
        return None
    rows = sorted(prices)
    # AWS keeps 90 days: before the oldest row that is known, that row's price is the nearest guess.
    starts = [start, *(max(since, start) for since, _ in rows[1:])]
    ends = [*starts[1:], end]
    parts = zip(rows, starts, ends, strict=True)
    return sum(usd * max(0, min(until, end) - since) / HOUR for (_, usd), since, until in parts)


def _stored(row, hours, rates):
    rate, is_own = usd_per_gb_month(row["kind"], row["region"], rates)
    usd = row["size_gb"] * hours / HOURS_A_MONTH * rate
    remark = "; ".join(filter(None, [_end_remark(row), "" if is_own else ESTIMATE]))
    return {
        "size_gb": row["size_gb"], "usd": usd, "on_demand_usd": usd, "is_estimate": not is_own, "remark": remark,
    }


def _copy(row, fact, rates):
    usd = row["size_gb"] * copy_usd_per_gb(row["copied_from"], rates)
    return fact | {
        "kind": "copy", "hours": 0.0, "size_gb": row["size_gb"], "usd": usd, "on_demand_usd": usd,
        "remark": f"from {row['copied_from']}",
    }


def _end_remark(row):
    if row["until"] is None:
        return "" if row["kind"] == "instance" else "still there"
    return END_REMARKS.get(row.get("until_is"), "")
