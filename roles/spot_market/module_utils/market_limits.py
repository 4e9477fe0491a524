"""The user's limits: a price cap, a deadline, a budget. Pure."""

from datetime import UTC, datetime, timedelta


def parse_deadline(text, now):
    """A point of time: "2026-12-03T18:00" (UTC unless it says otherwise), or hours from now: "48". None when empty.

    ValueError: it is neither.
    """
    if not text:
        return None
    try:
        return now + timedelta(hours=float(text))
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f'spot_market_deadline must be a time like "2026-12-03T18:00", or hours from now like "48", got "{text}"'
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def within_limits(candidates, request):
    """(offers within cap, deadline and budget; rejections of the others)."""
    reasons = [(offer, _beyond(offer, request)) for offer in candidates]
    rejected = [
        {key: offer[key] for key in ("region", "zone", "instance_type", "market")} | {"reason": reason}
        for offer, reason in reasons if reason
    ]
    return [offer for offer, reason in reasons if not reason], rejected


def _caps(region, request):
    """[(USD an hour or None, where it was set)]: everywhere's and the region's own."""
    own = request["max_price_by_region_usd"].get(region)
    return (
        (request["max_price_usd"], "spot_market_max_price_usd"),
        (own, f"spot_market_max_price_by_region_usd of {region}"),
    )


def _beyond(offer, request):
    budget, deadline = request["budget_usd"], request["deadline"]
    for cap, name in _caps(offer["region"], request):
        if cap is not None and offer["price_usd_per_hour"] > float(cap):
            return f"${offer['price_usd_per_hour']:.4g} an hour is above the cap of ${float(cap):.4g} ({name})"
    if deadline is not None and offer["finish_at"] > f"{deadline:%Y-%m-%dT%H:%M:%SZ}":
        return f"ready at {offer['finish_at']}, after {deadline:%Y-%m-%dT%H:%M:%SZ} (spot_market_deadline)"
    if budget is not None and offer["cost_usd"]["total"] > budget:
        return f"${offer['cost_usd']['total']:,.2f} in all is above ${budget:,.2f} (spot_market_budget_usd)"
    return ""
