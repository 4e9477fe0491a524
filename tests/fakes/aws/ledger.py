"""What the double would charge for: instances by the second, volumes and snapshots by size and time."""

from typing import Any

from moto.ec2.models import EC2Backend

from . import market
from .world import world

TAKEN_BACK = "Server.SpotInstanceTermination"


def patch_deletions() -> None:
    """Deleting a volume or a snapshot, by whatever way, ends what it costs."""
    for name in ("delete_volume", "delete_snapshot"):
        setattr(EC2Backend, name, _closing(getattr(EC2Backend, name)))


def _closing(delete: Any) -> Any:
    def deleting(self: EC2Backend, thing_id: str) -> Any:
        thing = delete(self, thing_id)
        close(thing)
        return thing

    return deleting


def open_row(kind: str, thing: Any, region: str, **facts: Any) -> None:
    """From now on the thing costs money."""
    row = {"kind": kind, "thing": thing, "region": region, "from": world().offset(), "until": None}
    world().ledger.append(row | facts)


def close(thing: Any, at: float | None = None) -> None:
    """at: seconds since the start; left out, now."""
    for row in world().ledger:
        if row["thing"] is thing and row["until"] is None:
            row["until"] = world().offset() if at is None else at


def bill() -> list[dict[str, Any]]:
    return [_bill_row(row) for row in world().ledger]


def _bill_row(row: dict[str, Any]) -> dict[str, Any]:
    thing, end = row["thing"], world().offset() if row["until"] is None else row["until"]
    facts = {
        "kind": row["kind"],
        "id": thing.id,
        "region": row["region"],
        "ended": row["until"] is not None,
        "seconds": end - row["from"],
    }
    if row["kind"] == "instance":
        return facts | {
            "zone": thing.availability_zone,
            "instance_type": thing.instance_type,
            "market": thing.market,
            "usd": _usd(thing, row["from"], end),
        }
    size = thing.size if row["kind"] == "volume" else thing.volume_size
    return facts | {"size_gib": size, "copied_from": row.get("copied_from")}


def _usd(instance: Any, start: float, end: float) -> float:
    """Dollars for the seconds of an instance, at least a minute, each at the price of its second.

    Nothing for a spot instance that AWS takes back within its first hour.
    """
    if instance.market == "spot" and instance.state_reason.code == TAKEN_BACK and end - start < 3600:
        return 0.0
    end = max(end, start + 60)
    region, name = instance.region_name, instance.instance_type
    if instance.market == "on_demand":
        return (market.on_demand_price(region, name) or 0.0) * (end - start) / 3600
    rows = market.offers(region, name)
    series = next((one.spot_usd_per_hour for one, _, at in rows if at == instance.availability_zone), ())
    ends = [since for since, _ in series[1:]] + [end]
    parts = ((price, max(since, start), min(to, end)) for (since, price), to in zip(series, ends, strict=True))
    return sum(price * (to - since) / 3600 for price, since, to in parts if to > since)
