"""The double's own address space, /double/...: looking at what happened, and making things happen."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

from werkzeug.wrappers import Request, Response

from . import instances, ledger, machines, market
from .regions import set_regions
from .scenario import Scenario
from .world import world

PREFIX = "/double/"


def answer(environ: dict[str, Any]) -> Response:
    request = Request(environ)
    action = ACTIONS.get((request.method, request.path.removeprefix(PREFIX)))
    if action is None:
        known = ", ".join(f"{method} {PREFIX}{name}" for method, name in ACTIONS)
        return Response(f"no {request.method} {request.path}; there are: {known}\n", 404)
    with world().lock:
        world().settle()
        try:
            result = action(request.get_data(as_text=True))
            return Response(json.dumps(result, default=str), mimetype="application/json")
        except (KeyError, ValueError) as error:
            return Response(f"{request.path}: {error!r}\n", 400)


def _calls(_: str) -> list[dict[str, Any]]:
    return world().calls


def _state(_: str) -> dict[str, list[dict[str, Any]]]:
    """All that costs money, region by region, with its tags."""
    return {region: _costly(instances.backend(region)) for region in world().scenario.region_names()}


def _costly(ec2: Any) -> list[dict[str, Any]]:
    alive = [one for one in ec2.all_instances() if one.state not in ("terminated", "shutting-down")]
    requests = [one for one in ec2.spot_instance_requests.values() if one.state in ("open", "active")]
    mine = [one for one in ec2.snapshots.values() if one.owner_id == instances.ACCOUNT]
    kinds = {"instance": alive, "volume": ec2.volumes.values(), "snapshot": mine, "spot_request": requests}
    kinds["address"] = ec2.addresses
    return [
        {
            "kind": kind,
            "id": getattr(one, "id", None) or one.allocation_id,
            "state": getattr(one, "status", "") if kind in ("volume", "snapshot") else getattr(one, "state", ""),
            "tags": {tag["key"]: tag["value"] for tag in one.get_tags()},
        }
        for kind, things in kinds.items()
        for one in things
    ]


def _instance(body: str) -> tuple[Any, dict[str, Any]]:
    asked = json.loads(body)
    return instances.find(asked["instance"]), asked


def _interrupt(body: str) -> dict[str, str]:
    """AWS takes a spot instance back."""
    instance, _ = _instance(body)
    instances.end(instance, *instances.TAKEN_BACK)
    return {"state": instance.state}


def _power_off(body: str) -> dict[str, str]:
    """The machine switches itself off: what that means its shutdown behaviour says."""
    instance, _ = _instance(body)
    if instance.instance_initiated_shutdown_behavior == "terminate":
        instances.end(instance, "Client.InstanceInitiatedShutdown", "Instance initiated shutdown")
    else:
        instance.stop()
        ledger.close(instance)
    return {"state": instance.state}


def _console(body: str) -> dict[str, str]:
    instance, asked = _instance(body)
    world().consoles[instance.id] = asked["text"]
    return {"id": instance.id}


def _scenario(body: str) -> dict[str, int]:
    """Another scenario from here on: market, capacity, quotas, faults, timing. What exists goes on existing."""
    world().scenario = Scenario.model_validate(tomllib.loads(body))
    world().fault_hits.clear()
    world().buckets.clear()
    set_regions(world().scenario)
    market.set_instance_types(world().scenario)
    return {"offers": len(world().scenario.offers)}


ACTIONS: dict[tuple[str, str], Callable[[str], Any]] = {
    ("GET", "calls"): _calls,
    ("GET", "state"): _state,
    ("GET", "bill"): lambda _: ledger.bill(),
    ("GET", "machines"): machines.machines,
    ("POST", "booted"): machines.booted,
    ("POST", "interrupt"): _interrupt,
    ("POST", "power_off"): _power_off,
    ("POST", "console"): _console,
    ("POST", "scenario"): _scenario,
}
