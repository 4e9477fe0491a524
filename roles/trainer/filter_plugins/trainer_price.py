"""The price of a host that goes on costing: what was spent stays spent when the price changes."""

HOUR_SECONDS = 3600
_RATES = {
    "price_usd_per_hour": "spent_before_usd", "on_demand_usd_per_hour": "spent_before_on_demand_usd",
}  # fmt: skip


def trainer_price_after(price, before, now):
    """`price` (trainer_price) as price.json shall hold it after `before`, at `now` (unix seconds).

    Of the same host at the same price, it counts from when that one did. At another price, what the host has cost until
    now is added to what was spent before it, and the new price counts from now on: the sum never goes back.
    """
    if not _is_price(before) or before.get("instance_id") != price["instance_id"]:
        return price
    if all(_number(before.get(rate)) == _number(price[rate]) for rate in _RATES):
        since, spent = before["launched_at"], {key: before.get(key) for key in _RATES.values()}
    else:
        since, hours = now, max(0.0, now - before["launched_at"]) / HOUR_SECONDS
        spent = {key: _spent(before.get(key), before.get(rate), hours) for rate, key in _RATES.items()}
    return {**price, "launched_at": since} | {key: max(price[key], usd, key=_number) for key, usd in spent.items()}


def _is_price(found):
    return isinstance(found, dict) and isinstance(found.get("launched_at"), (int, float))


def _spent(before, rate, hours):
    return round(_number(before) + _number(rate) * hours, 4)


def _number(value):
    """What is not known is nothing."""
    return float(value) if isinstance(value, (int, float)) else 0.0


class FilterModule:
    def filters(self):
        return {"trainer_price_after": trainer_price_after}
