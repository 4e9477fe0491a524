"""The plan as text for a terminal, and as one message when nothing is left of it. Pure."""

SHOWN = 15
COLUMNS = (
    ("#", ">3"), ("market", "<9"), ("type", "<12"), ("where", "<22"), ("$/h now", ">8"), ("median", ">8"),
    ("worst", ">8"), ("off", ">8"), ("images/s", ">8"), ("hours", ">6"), ("total $", ">9"), ("ready (UTC)", "<16"),
)
COSTS = (
    ("#", ">3"), ("compute", ">9"), ("copy", ">7"), ("volume", ">7"), ("warm-up", ">8"), ("lost work", ">9"),
    ("total $", ">9"), ("snapshot", "<19"), ("quota vCPUs", ">11"), ("score", ">5"),
)


def render_table(plan, baseline):
    """The whole text; baseline: the cheapest on-demand offer before any limit, or None."""
    shown = [offer for offer in plan["offers"] if offer["rank"] <= SHOWN]
    shown += [offer for offer in _on_demand(plan)[:3] if offer not in shown]
    sections = [
        _heading(plan, shown),
        _grid(COLUMNS, map(_offer_row, shown)) if shown else "",
        "What each of them costs, in dollars\n" + _grid(COSTS, map(_cost_row, shown)) if shown else "",
        _saving(plan, baseline),
        _list("Where images/s come from", _sources(shown)),
        _list("Not offered to you", summary(plan["rejected"])),
        _list("To know", plan["notes"] + _remarks(plan)),
    ]
    return "\n\n".join(section for section in sections if section)


def _heading(plan, shown):
    states = [region["state"] for region in plan["regions"]]
    text = f"{states.count('surveyed')} regions surveyed, {states.count('failed')} failed, at {plan['surveyed_at']}. "
    if not shown:
        return text + "No offer is left."
    return text + f"{len(plan['offers'])} offers, the cheapest run first; {len(shown)} shown. Nothing was rented."


def _on_demand(plan):
    return [offer for offer in plan["offers"] if offer["market"] == "on_demand"]


def _grid(columns, rows):
    lines = [[name for name, _ in columns], *rows]
    return "\n".join(
        "  ".join(f"{cell:{form}}" for cell, (_, form) in zip(line, columns, strict=True)).rstrip() for line in lines
    )


def _offer_row(offer):
    where = f"{offer['zone'] or offer['region']} {offer['zone_id'] or ''}"
    return [
        str(offer["rank"]), offer["market"].replace("_", " "), offer["instance_type"], where.strip(),
        _usd(offer["price_usd_per_hour"]), _usd(offer["price_median_7_days_usd"]),
        _usd(offer["price_worst_7_days_usd"]), _discount(offer), f"{offer['images_per_second']:,.0f}",
        f"{offer['hours']:,.1f}", f"{offer['cost_usd']['total']:,.2f}", offer["finish_at"][:16].replace("T", " "),
    ]


def _usd(price):
    return "-" if price is None else f"{price:.3f}"


def _discount(offer):
    if offer["market"] == "on_demand":
        return "-"
    if offer["discount"] is None:
        return "?"
    return f"{offer['discount']:.0%}" if offer["discount"] > 0 else "no gain"


def _cost_row(offer):
    costs, score = offer["cost_usd"], offer["placement_score"]
    parts = (costs[part] for part in ("compute", "copy", "volume", "warm_up", "lost_work", "total"))
    snapshot = "there" if offer["snapshot_present"] else f"from {offer['copy_from']}" if offer["copy_from"] else "none"
    quota = "-" if offer["quota_vcpus"] is None else str(offer["quota_vcpus"])
    row = [str(offer["rank"]), *(f"{part:,.2f}" for part in parts), snapshot, quota]
    return [*row, "-" if score is None else str(score)]


def _saving(plan, baseline):
    """The same run on demand, so that a saving is a fact."""
    if baseline is None:
        return "On demand: no price is known, so nobody can say what spot saves."
    total = baseline["cost_usd"]["total"]
    text = (
        f"The same run on demand: ${total:,.2f} at best (compute ${baseline['cost_usd']['compute']:,.2f}), "
        f"{baseline['instance_type']} in {baseline['region']} at ${baseline['price_usd_per_hour']:.3f} an hour."
    )
    best = next((offer for offer in plan["offers"] if offer["market"] == "spot"), None)
    if best is None:
        return text
    cost = best["cost_usd"]["total"]
    if cost >= total:
        return f"{text} Spot is no gain: ${cost:,.2f} at best."
    return f"{text} The best spot offer costs ${cost:,.2f}: {1 - cost / total:.0%} less."


def _sources(offers):
    return sorted({f"{offer['instance_type']}: {offer['images_per_second_source']}" for offer in offers})


def _remarks(plan):
    remarks = {}
    for offer in plan["offers"]:
        for remark in offer["remarks"]:
            place = f"{offer['instance_type']} in {offer['zone'] or offer['region']}"
            remarks.setdefault(remark, []).append(place)
    return [f"{remark}: {', '.join(places)}" for remark, places in remarks.items()]


def summary(rejected):
    """Rejections in few lines: one for each reason, with its types and places."""
    places, types = {}, {}
    for row in rejected:
        market = "on demand: " if row.get("market") == "on_demand" else ""
        key = row["instance_type"], market + row["reason"]
        places.setdefault(key, []).append(row.get("zone") or row["region"])
    for (instance_type, reason), where in places.items():
        types.setdefault((reason, tuple(sorted(filter(None, where)))), []).append(instance_type)
    return [
        f"{', '.join(names)}: {reason}" + (f" ({', '.join(where)})" if where else "")
        for (reason, where), names in types.items()
    ]


def _list(title, lines):
    return "\n".join([title, *(f"  {line}" for line in lines)]) if lines else ""


def failure_message(plan, others):
    """Why there is no offer, and what can be had instead. others: of market_types.alternatives."""
    nearest = [f"{name}, about {speed:,.0f} images/s: {', '.join(regions)}" for name, speed, regions in others[:3]]
    sections = [
        _list("No offer is left. Why:", summary(plan["rejected"])),
        _list("The nearest that MXNet can run and AWS offers (spot_market_instance_types):", nearest),
        _list("To know:", plan["notes"]),
    ]
    return "\n".join(section for section in sections if section)
