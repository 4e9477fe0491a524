"""A survey of the market -> offers, ranked by what the whole run costs, and what was rejected and why. Pure.

The survey is what module_utils/spot_survey.py returns; the request holds the arguments of the module spot_offers.
"""

from collections import namedtuple
from datetime import timedelta

from ansible.module_utils.market_limits import within_limits
from ansible.module_utils.market_prices import last_week, linux_rows, price_now
from ansible.module_utils.market_types import family, images_per_second, interruptions_per_hour, refusal, vcpus
from ansible.module_utils.market_zones import is_in_a_zone, quota_refusal, zone_refusal, zones_of
from ansible.module_utils.run_costs import hours_until_ready, run_costs, training_hours

STATES = {"failed": "the region failed", "not enabled": "the region is not enabled for this account"}
# What the costs of a machine in one region depend on, besides its price.
Place = namedtuple("Place", "region snapshot_present copy_from volume_gb")


def make_plan(survey, request):
    """{"offers", "rejected", "regions", "snapshots", "notes", "surveyed_at"} and "baseline" (on demand, unfiltered)."""
    types, rejected = _runnable(request)
    candidates = []
    for region, found in sorted(survey["regions"].items()):
        for instance_type in types:
            offers, refusals = _in_region(survey, request, region, found, instance_type)
            candidates += offers
            rejected += [{"region": region, "instance_type": instance_type, **refusal} for refusal in refusals]
    offers, filtered = within_limits(candidates, request)
    offers = [offer | {"rank": rank} for rank, offer in enumerate(sorted(offers, key=_order), 1)]
    return {
        "offers": offers,
        "rejected": rejected + filtered,
        "regions": [
            {"region": name, "state": found["state"], "reason": found["reason"], "seconds": found["seconds"]}
            for name, found in sorted(survey["regions"].items())
        ],
        "snapshots": [
            snapshot | {"region": region}
            for region, found in sorted(survey["regions"].items()) for snapshot in found["snapshots"]
        ],
        "notes": _notes(survey, request),
        "surveyed_at": f"{survey['now']:%Y-%m-%dT%H:%M:%SZ}",
        "baseline": min((offer for offer in candidates if offer["market"] == "on_demand"), key=_order, default=None),
    }


def _order(offer):
    return offer["cost_usd"]["total"], offer["finish_at"], offer["region"], offer["zone"] or "", offer["instance_type"]


def _runnable(request):
    """(types that MXNet can run, rejections of the others)."""
    refusals = {name: refusal(name, request["profiles"]) for name in request["instance_types"]}
    rejected = [
        {"region": None, "instance_type": name, "reason": reason} for name, reason in refusals.items() if reason
    ]
    return [name for name, reason in refusals.items() if not reason], rejected


def _in_region(survey, request, region, found, instance_type):
    """(offers, refusals) of one type in one region."""
    if found["state"] != "surveyed":
        return [], [{"reason": f"{STATES[found['state']]}: {found['reason']}"}]
    if not found["offerings"].get(instance_type):
        return [], [{"reason": "not offered in this region"}]
    place, reason = _place(survey, request, region)
    if reason:
        return [], [{"reason": reason}]
    on_demand, source = on_demand_price(survey, request, region, instance_type)
    offers, refusals = [], []
    for zone in sorted(zones_of(found, instance_type)):
        offer, why = _spot_offer(survey, request, place, instance_type, zone, on_demand)
        offers += [offer] if offer else []
        refusals += [{"zone": zone, "reason": why}] if why else []
    if on_demand and is_in_a_zone(found, instance_type):
        offers.append(_on_demand_offer(survey, request, place, instance_type, on_demand, source))
    elif not on_demand:
        refusals.append({"zone": None, "market": "on_demand", "reason": "its price is unknown"})
    return offers, refusals


def _spot_offer(survey, request, place, instance_type, zone, on_demand):
    """(offer, "") or (None, why there is none)."""
    found, now = survey["regions"][place.region], survey["now"]
    rows = linux_rows(found["prices"], zone, instance_type, now)
    newest, reason = price_now(rows, now)
    reason = zone_refusal(found, zone, instance_type) or quota_refusal(found, request, instance_type) or reason
    if reason:
        return None, reason
    median, worst = last_week(rows, now)
    price = newest["usd"]
    offer = _offer(survey, request, place, instance_type, "spot", price, on_demand) | {
        "zone": zone,
        "zone_id": found["zones"].get(zone, {}).get("id"),
        "product_description": newest["description"],
        "price_at": f"{newest['at']:%Y-%m-%dT%H:%M:%SZ}",
        "price_median_7_days_usd": median,
        "price_worst_7_days_usd": worst,
        "discount": 1 - price / on_demand if on_demand else None,
        "quota_vcpus": found["quotas"].get(family(instance_type)),
        "placement_score": _score(survey, place.region, found["zones"].get(zone, {}).get("id"), instance_type),
    }
    if on_demand and price >= on_demand:
        offer["remarks"] = ["no gain: spot costs as much as on demand, and can be taken away"]
    return offer, ""


def _score(survey, region, zone_id, instance_type):
    scores = survey["scores"].get(instance_type, {})
    return scores.get(zone_id, scores.get(region))


def _on_demand_offer(survey, request, place, instance_type, price, source):
    offer = _offer(survey, request, place, instance_type, "on_demand", price, price)
    return offer | {"zone": None, "zone_id": None, "remarks": [source] if source else []}


def _offer(survey, request, place, instance_type, market, price, on_demand):
    speed, source = images_per_second(request, instance_type)
    hours = training_hours(request["epochs"], request["images"], speed)
    rate = interruptions_per_hour(request, instance_type) if market == "spot" else 0.0
    run = hours, rate, place.volume_gb
    interval, rates = request["checkpoint_interval_seconds"], request["rates"]
    ready = hours_until_ready(*run, place.copy_from is not None, interval, rates)
    return {
        "region": place.region,
        "zone": None,
        "zone_id": None,
        "instance_type": instance_type,
        "market": market,
        "price_usd_per_hour": price,
        "on_demand_usd_per_hour": on_demand,
        "images_per_second": speed,
        "images_per_second_source": source,
        "hours": hours,
        "cost_usd": run_costs(price, *run, place.copy_from, interval, rates, place.region),
        "interruptions": hours * rate,
        "finish_at": f"{survey['now'] + timedelta(hours=ready):%Y-%m-%dT%H:%M:%SZ}",
        "snapshot_present": place.snapshot_present,
        "copy_from": place.copy_from,
        "vcpus": vcpus(survey["regions"][place.region], request, instance_type),
        "quota_vcpus": None,
        "placement_score": None,
        "remarks": [],
        "product_description": None,
        "price_at": None,
        "price_median_7_days_usd": None,
        "price_worst_7_days_usd": None,
        "discount": None,
    }


def on_demand_price(survey, request, region, instance_type):
    """(USD an hour or None, a remark when it is from the shipped table)."""
    price = survey["on_demand"].get(instance_type, {}).get(region)
    if price:
        return price, ""
    table = request["on_demand_table"]
    if region in table["regions"] and instance_type in table["usd_per_hour"]:
        return table["usd_per_hour"][instance_type], f"on-demand price from the kit's table of {table['date']}"
    return None, ""


def _place(survey, request, region):
    """(Place, "") or (None, why the data cannot get there). The copy comes from where leaving is cheapest."""
    present = {name: found["snapshots"] for name, found in survey["regions"].items() if found["snapshots"]}
    if not present:
        return Place(region, False, None, request["dataset_gb"]), ""
    if region in present:
        return Place(region, True, None, _largest_gb(present[region])), ""
    prices = request["rates"]["copy_usd_per_gb"]
    source = min(present, key=lambda name: (prices.get(name, prices["default"]), name))
    key = survey["regions"][region]["copy_key"]
    if any(snapshot["encrypted"] for snapshot in present[source]) and key:
        return None, f"the snapshot is encrypted and cannot be copied there: {key}"
    return Place(region, False, source, _largest_gb(present[source])), ""


def _largest_gb(snapshots):
    return max(snapshot["size_gb"] for snapshot in snapshots)


def _notes(survey, request):
    notes = list(survey["notes"])
    if not any(found["snapshots"] for found in survey["regions"].values()):
        tags = ", ".join(f"{key}={value}" for key, value in request["snapshot_tags"].items())
        notes.append(
            f"no region surveyed has a snapshot of the data set ({request['snapshot_id'] or tags}): bringing the data "
            "to AWS is not in the costs"
        )
    if any(snapshot["encrypted"] for found in survey["regions"].values() for snapshot in found["snapshots"]):
        key = request["kms_key_alias"] or "AWS's own key of that region (alias/aws/ebs)"
        notes.append(f"the snapshot is encrypted; a copy in another region would be, with {key}")
    return notes
