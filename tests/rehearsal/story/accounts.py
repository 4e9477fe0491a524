"""The bill, worked out a second time, from what the double wrote down and without the role that writes bills. Pure.

Prices of AWS's EBS and EC2 pages for us-east-1 in dollars; a month has 730 hours there.
"""

VOLUME_GB_MONTH, SNAPSHOT_GB_MONTH, LEAVING_REGION_GB = 0.08, 0.05, 0.02
MONTH_SECONDS = 730 * 3600


def cost_usd(row: dict) -> float:
    """Of a row of the double's /double/bill."""
    if row["kind"] == "instance":
        return row["usd"]
    rate = VOLUME_GB_MONTH if row["kind"] == "volume" else SNAPSHOT_GB_MONTH
    copied = LEAVING_REGION_GB if row["copied_from"] else 0
    return row["size_gib"] * (rate * row["seconds"] / MONTH_SECONDS + copied)


def by_id(bill: dict) -> dict[str, float]:
    """Dollars of each thing in a bill.json; a copy belongs to its snapshot."""
    found: dict[str, float] = {}
    for row in bill["rows"]:
        found[row["id"]] = found.get(row["id"], 0.0) + row["usd"]
    return found


def differences(bill: dict, ledger: list[dict]) -> list[str]:
    """Whatever the two do not agree on by half a cent or more, in words."""
    told, known = by_id(bill), {row["id"]: cost_usd(row) for row in ledger}
    lines = [
        f"{name}: the bill says {told.get(name)}, the ledger {known.get(name)}"
        for name in sorted(told.keys() | known.keys())
        if name not in told or name not in known or abs(told[name] - known[name]) >= 0.005
    ]
    if abs(bill["total_usd"] - sum(known.values())) >= 0.005:
        lines.append(f"the sum: the bill says {bill['total_usd']:.4f}, the ledger {sum(known.values()):.4f}")
    return lines
