"""Reads the market of every region, side by side. Rents nothing, changes nothing.

What it returns, and the pure functions of market_offers.py take:
{"now", "regions": {name: {"state" ("surveyed", "failed", "not enabled"), "reason", "seconds", "zones", "offerings",
"types", "prices", "quotas", "snapshots", "copy_key"}}, "on_demand": {type: {region: USD}}, "scores": {type: {zone id or
region: 1-10}}, "notes": [what could not be read]}
"""

import queue
import threading
import time
from datetime import UTC, datetime
from functools import partial

import boto3
from ansible.module_utils.market_prices import on_demand_prices
from ansible.module_utils.region_reads import in_words, read_region
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# Throttled calls and passing faults are tried again after growing, random waits of up to 20 s.
CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 6}, connect_timeout=5, read_timeout=15)
# The pricing API is in three regions that tell the same: the next one is the better second try.
PRICING_CONFIG = CONFIG.merge(Config(retries={"mode": "standard", "total_max_attempts": 3}))
PRICING_HOMES = ("us-east-1", "eu-central-1", "ap-south-1")
# Asked for the list of regions, one after another until one answers.
HOMES = ("us-east-1", "us-west-2", "eu-west-1", "ap-southeast-1")
NOT_READ = {"zones": {}, "offerings": {}, "types": {}, "prices": [], "quotas": {}, "snapshots": [], "copy_key": ""}


def survey(wanted):
    """wanted: {"types", "known_types" (looked for in the offerings), "regions" (empty: all), "snapshot_id",
    "snapshot_tags", "kms_key_alias", "timeout_seconds" (of all that runs side by side)}.

    OSError: no region answers at all.
    """
    session = boto3.session.Session()
    client = client_maker(session)
    home, statuses = region_statuses(client, session.region_name)
    asked = {name: status for name, status in statuses.items() if not wanted["regions"] or name in wanted["regions"]}
    enabled = [name for name, status in asked.items() if status != "not-opted-in"]
    jobs = {("region", name): partial(read_region, client, name, wanted) for name in enabled}
    jobs |= {("on-demand price", name): partial(read_on_demand, client, name) for name in wanted["types"]}
    jobs |= {("placement scores", name): partial(read_scores, client, home, name) for name in wanted["types"]}
    done = side_by_side(jobs, wanted["timeout_seconds"])
    return {
        "now": datetime.now(UTC),
        "regions": {name: _region(status, done.get(("region", name))) for name, status in asked.items()},
        "on_demand": {name: done["on-demand price", name][0] or {} for name in wanted["types"]},
        "scores": {name: done["placement scores", name][0] or {} for name in wanted["types"]},
        "notes": _unknown_regions(wanted["regions"], statuses) + _notes(done),
    }


def client_maker(session):
    """client(service, region). One session, for it keeps what boto3 knows of each service; it is not thread-safe."""
    lock = threading.Lock()

    def client(service, region):
        with lock:
            config = PRICING_CONFIG if service == "pricing" else CONFIG
            return session.client(service, region_name=region, config=config)

    return client


def region_statuses(client, own):
    """(the region that answered, {region: opt-in status}). own: the user's region, asked first; None when unset."""
    reasons = {}
    for home in dict.fromkeys([own, *HOMES] if own else HOMES):
        try:
            rows = client("ec2", home).describe_regions(AllRegions=True)["Regions"]
            return home, {row["RegionName"]: row.get("OptInStatus", "opt-in-not-required") for row in rows}
        except (BotoCoreError, ClientError) as error:
            reasons.setdefault(in_words(error), []).append(home)
    raise OSError("; ".join(f"{reason} ({', '.join(homes)})" for reason, homes in reasons.items()))


def side_by_side(jobs, timeout_seconds):
    """{name: (result, reason of failure or "", seconds)} of {name: callable}, all at once, each in a thread of its own.

    Daemon threads, so that one that hangs holds up nobody: not the others, not the end of the program.
    """
    results = queue.SimpleQueue()
    for name, job in jobs.items():
        threading.Thread(target=_run, args=(results, name, job), daemon=True).start()
    done, deadline = {}, time.monotonic() + timeout_seconds
    while len(done) < len(jobs):
        try:
            name, *outcome = results.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        done[name] = tuple(outcome)
    late = (None, f"no answer within {timeout_seconds:g} s", timeout_seconds)
    return {name: done.get(name, late) for name in jobs}


def _run(results, name, job):
    started = time.monotonic()
    try:
        result, reason = job(), ""
    # Whatever goes wrong in one region must not take the others along; it is told as that region's reason.
    except Exception as error:
        result, reason = None, in_words(error)
    results.put((name, result, reason, round(time.monotonic() - started, 3)))


def read_on_demand(client, instance_type):
    """{region: USD an hour}. One question for all regions, to the first region of the pricing API that answers."""
    filters = {
        "instanceType": instance_type, "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }
    question = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()]
    for home in PRICING_HOMES:
        try:
            paginator = client("pricing", home).get_paginator("get_products")
            pages = paginator.paginate(ServiceCode="AmazonEC2", Filters=question)
            return on_demand_prices((product for page in pages for product in page["PriceList"]), instance_type)
        except (BotoCoreError, ClientError) as error:
            failure = error
    raise failure


def read_scores(client, home, instance_type):
    """{zone id, or region where AWS names no zone: 1 (unlikely) to 10}; AWS tells the best ten."""
    pages = client("ec2", home).get_paginator("get_spot_placement_scores").paginate(
        InstanceTypes=[instance_type], TargetCapacity=1, TargetCapacityUnitType="units", SingleAvailabilityZone=True
    )
    rows = [row for page in pages for row in page["SpotPlacementScores"]]
    return {row.get("AvailabilityZoneId") or row["Region"]: row["Score"] for row in rows}


def _region(status, outcome):
    if outcome is None:
        return {"state": "not enabled", "reason": status, "seconds": 0.0, **NOT_READ}
    found, reason, seconds = outcome
    state = "failed" if reason else "surveyed"
    return {"state": state, "reason": reason, "seconds": seconds, **(found or NOT_READ)}


def _unknown_regions(regions, statuses):
    return [f"spot_market_regions: AWS has no region {name}" for name in regions if name not in statuses]


def _notes(done):
    """What could not be read, though the rest of the plan stands."""
    missing = [
        f"AWS told no {kind} for {name}: {reason}" for (kind, name), (_, reason, _) in done.items()
        if reason and kind != "region"
    ]
    regions = [(name, found) for (kind, name), (found, _, _) in done.items() if kind == "region" and found]
    return missing + [f"{name}: {note}" for name, found in regions for note in found["notes"]]
