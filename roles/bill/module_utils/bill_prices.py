"""The prices of the ledger's instances, as far as they are not known yet: spot by zone, on demand by region."""

from functools import partial

from ansible.module_utils.market_prices import is_price, linux_rows
from ansible.module_utils.region_reads import read_prices
from ansible.module_utils.spot_survey import read_on_demand, side_by_side


def add_prices(rows, client, table, now, timeout_seconds):
    """Writes `spot_prices` and `on_demand_usd_per_hour` into instances' rows; returns notes of what AWS did not tell.

    table: prices on demand for when the pricing API has none. now: a datetime with time zone.
    """
    open_rows = [row for row in rows.values() if row["kind"] == "instance" and not _is_settled(row)]
    jobs = {}
    for row in open_rows:
        if row["market"] == "spot":
            kind = ("spot prices", row["region"], row["instance_type"])
            jobs[kind] = partial(_read_spot, client, row["region"], row["instance_type"])
        if row.get("on_demand_usd_per_hour") is None:
            jobs["on-demand price", None, row["instance_type"]] = partial(read_on_demand, client, row["instance_type"])
    done = side_by_side(jobs, timeout_seconds) if jobs else {}
    for row in open_rows:
        _add_spot(row, done.get(("spot prices", row["region"], row["instance_type"])), now)
        _add_on_demand(row, done.get(("on-demand price", None, row["instance_type"])), table)
    return [f"AWS told no {kind} for {name}: {reason}" for (kind, _, name), (_, reason, _) in done.items() if reason]


def _is_settled(row):
    until = row["until"]
    has_spot = row["market"] != "spot" or (until is not None and row.get("priced_until", 0) >= until)
    return has_spot and row.get("on_demand_usd_per_hour") is not None


def _read_spot(client, region, instance_type):
    return read_prices(client("ec2", region), [instance_type])


def _add_spot(row, outcome, now):
    """Adds to what was known: AWS keeps prices for 90 days, the ledger for ever."""
    row.setdefault("spot_prices", [])
    if outcome is None or outcome[1]:
        return
    told = linux_rows(outcome[0], row["zone"], row["instance_type"], now)
    prices = dict(row["spot_prices"]) | {int(one["at"].timestamp()): one["usd"] for one in told}
    first = max((since for since in prices if since <= row["from"]), default=row["from"])
    last = row["until"] or now.timestamp()
    row["spot_prices"] = sorted([since, usd] for since, usd in prices.items() if first <= since <= last)
    row["priced_until"] = int(now.timestamp())


def _add_on_demand(row, outcome, table):
    if row.get("on_demand_usd_per_hour") is not None:
        return
    usd = (outcome[0] or {}).get(row["region"]) if outcome else None
    if usd is None and row["region"] in table["regions"]:
        usd = table["usd_per_hour"].get(row["instance_type"])
    row["on_demand_usd_per_hour"] = usd if usd is not None and is_price(usd) else None
