"""The bill for a terminal. Pure."""

from datetime import UTC, datetime

HEAD = ("what", "market", "where", "id", "from (UTC)", "until", "hours", "$", "on demand $", "")


def render(bill):
    """bill: what run_bill writes into bill.json."""
    lines = [f"The bill of {bill['run']}, {_time(bill['at'])} UTC", ""]
    lines += _table([HEAD, *map(_cells, bill["rows"])]) if bill["rows"] else ["Nothing that costs money was ever seen."]
    lines += ["", _sum(bill)]
    lost = bill["lost_work"]
    if lost["interruptions"]:
        lines.append(
            f"Lost work, in that sum: {lost['interruptions']} interruptions, {lost['seconds'] / 3600:.2f} h and "
            f"{lost['steps']:,} steps trained twice, ${lost['usd']:,.2f}"
        )
    return "\n".join(lines + [f"Note: {note}" for note in bill["notes"]])


def _sum(bill):
    total, other = bill["total_usd"], bill["on_demand_usd"]
    at_least = " at least" if any(row["usd"] is None or row["is_least"] for row in bill["rows"]) else ""
    saved = f": {round(100 * (1 - total / other))} % less" if other > total else ""
    return f"Sum:{at_least} ${total:,.2f}; the same hours on demand ${other:,.2f}{saved}"


def _cells(row):
    what = row.get("instance_type") or f"{row['kind']} {row['size_gb']} GB"
    until = "now" if row["until"] is None else _time(row["until"])
    hours = f"{row['hours']:.2f}" if row["kind"] != "copy" else "-"
    return (
        what, row.get("market", "-").replace("_", " "), row["zone"] or row["region"], row["id"], _time(row["from"]),
        until, hours, _usd(row["usd"]), _usd(row["on_demand_usd"]), row["remark"],
    )


def _table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _usd(value):
    return "?" if value is None else f"{value:,.2f}"


def _time(seconds):
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
