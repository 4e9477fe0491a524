"""What a rented machine has cost, what the run will have cost at its end, and what it would have cost on demand."""

import json
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from trainer.observe.history import History, is_number
from trainer.run import Run

_HOUR_SECONDS = 3600


def read_price(path: Path) -> dict | None:
    """price.json of a run; None for a machine that is not rented, or when the file says no price."""
    try:
        price = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    told = isinstance(price, dict) and all(is_number(price.get(key)) for key in ("price_usd_per_hour", "launched_at"))
    return price if told else None


def costs(price: dict, now: float, seconds_left: float | None) -> dict:
    """Dollars, of this machine since its launch and of those before it (`spent_before_usd`).

    so_far_usd, on_demand_so_far_usd: until `now` (unix seconds). forecast_usd, on_demand_forecast_usd: when the run
    ends after `seconds_left`; None while nobody knows when that is. saving_usd, saving_share (0-1): of the forecast (or
    of what was spent so far) against on demand; None where that price is not known. over_budget: by the forecast.
    """
    so_far = _spent(price, "price_usd_per_hour", "spent_before_usd", now)
    on_demand = _spent(price, "on_demand_usd_per_hour", "spent_before_on_demand_usd", now)
    forecast = _later(so_far, price, "price_usd_per_hour", seconds_left)
    on_demand_forecast = _later(on_demand, price, "on_demand_usd_per_hour", seconds_left)
    spent, otherwise = (so_far, on_demand) if forecast is None else (forecast, on_demand_forecast)
    budget = price.get("budget_usd")
    return {
        "so_far_usd": so_far, "on_demand_so_far_usd": on_demand, "forecast_usd": forecast,
        "on_demand_forecast_usd": on_demand_forecast,
        "saving_usd": None if otherwise is None else otherwise - spent,
        "saving_share": 1 - spent / otherwise if otherwise else None,
        "budget_usd": budget if is_number(budget) else None,
        "over_budget": is_number(budget) and spent > budget,
        "price_usd_per_hour": price["price_usd_per_hour"],
        "on_demand_usd_per_hour": price.get("on_demand_usd_per_hour"),
        "market": price.get("market"), "instance_type": price.get("instance_type"),
        "place": price.get("zone") or price.get("region"),
    }  # fmt: skip


def cost_of(run: Run, history: History, state: str) -> dict | None:
    """{usd, on_demand_usd, billed}: by the bill when it is known, else by the price until now or the run's end.

    None for a machine that is not rented. state: of `trainer.observe.summary`.
    """
    bill = read_bill(run.bill)
    if bill is not None:
        return {"usd": bill["total_usd"], "on_demand_usd": bill.get("on_demand_usd"), "billed": True}
    price = read_price(run.price)
    if price is None:
        return None
    found = costs(price, ended(history, state), None)
    return {"usd": found["so_far_usd"], "on_demand_usd": found["on_demand_so_far_usd"], "billed": False}


def read_bill(path: Path) -> dict | None:
    """bill.json of a run; None when it was not fetched, or has no sum."""
    try:
        bill = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return bill if isinstance(bill, dict) and is_number(bill.get("total_usd")) else None


def ended(history: History, state: str) -> float:
    """Until when a run's machine counts, unix seconds."""
    return time.time() if state == "running" or history.ended is None else history.ended


def rented_until(now: float, trains: bool, start: dict, heard: Iterable) -> float:
    """Until when the newest machine of a run costs, unix seconds; start: the event of its newest start.

    `now` while it trains, and on that machine itself. Elsewhere, with files that were fetched, the newest of the times
    at which it was `heard` of: it may be gone since.
    """
    if trains or start.get("host", socket.gethostname()) == socket.gethostname():
        return now
    return max(filter(is_number, heard), default=now)


def _spent(price: dict, rate: str, before: str, now: float) -> float | None:
    if not is_number(price.get(rate)):
        return None
    earlier = price.get(before)
    return (earlier if is_number(earlier) else 0.0) + price[rate] * max(0.0, now - price["launched_at"]) / _HOUR_SECONDS


def _later(so_far: float | None, price: dict, rate: str, seconds_left: float | None) -> float | None:
    if so_far is None or seconds_left is None:
        return None
    return so_far + price[rate] * seconds_left / _HOUR_SECONDS
