"""What every call passes before it is answered: the region's opt-in, latency, throttling, faults."""

import json
import time
from fnmatch import fnmatchcase

from .call import Call
from .scenario import Fault, Throttle
from .world import World

MESSAGES = {
    "AuthFailure": "AWS was not able to validate the provided access credentials",
    "ExpiredToken": "The provided token has expired.",
    "InsufficientInstanceCapacity": "There is no Spot capacity available that matches your request.",
    "InternalError": "An internal error has occurred",
    "InvalidClientTokenId": "The security token included in the request is invalid",
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "RequestExpired": "Request has expired.",
    "RequestLimitExceeded": "Request limit exceeded.",
    "SpotMaxPriceTooLow": "Your Spot request price is lower than the minimum required Spot request fulfillment price.",
    "ThrottlingException": "Rate exceeded",
    "UnauthorizedOperation": "You are not authorized to perform this operation.",
    "Unavailable": "The service is temporarily unavailable.",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit allows for the instance "
    "bucket that the specified instance type belongs to.",
}
THROTTLED = {
    "ec2": "RequestLimitExceeded",
    "pricing": "ThrottlingException",
    "s3": "SlowDown",
    "servicequotas": "TooManyRequestsException",
}
GLOBAL_SERVICES = {"iam", "sts", "s3", "pricing"}


def latency_seconds(world: World, call: Call) -> float:
    for row in world.scenario.latency:
        if _matches(row.action, call) and fnmatchcase(call.region, row.region):
            return row.seconds
    return 0.0


def refusal(world: World, call: Call) -> str | None:
    """The code of an error that this region or the rate of calls earns; None when the call may go on."""
    known = world.scenario.regions.get(call.region)
    named = call.region in world.scenario.region_names() or call.region == "us-east-1"
    if call.service not in GLOBAL_SERVICES and (not named or (known and known.opt_in == "not-opted-in")):
        return "AuthFailure" if call.service == "ec2" else "UnrecognizedClientException"
    with world.lock:
        for number, row in enumerate(world.scenario.throttle):
            if _matches(row.action, call) and fnmatchcase(call.region, row.region):
                return None if _takes_token(world, number, row, call) else THROTTLED.get(call.service, "Throttling")
    return None


def _takes_token(world: World, number: int, row: Throttle, call: Call) -> bool:
    key = (number, call.action, call.region)
    tokens, then = world.buckets.get(key, (float(row.burst), time.time()))
    now = time.time()
    tokens = min(row.burst, tokens + (now - then) * row.per_second)
    world.buckets[key] = (tokens - 1 if tokens >= 1 else tokens, now)
    return tokens >= 1


def next_fault(world: World, call: Call, zone: str) -> tuple[str, str]:
    """The word and the message of the first fault that has one for this call; ("ok", "") without any."""
    words = []
    for number, row in enumerate(world.scenario.faults):
        if _fault_matches(row, call, zone):
            word = _word(row, world.fault_hits[number] - row.after)
            world.fault_hits[number] += 1
            words.append((word, row.message or MESSAGES.get(word, f"{word}, as the scenario says")))
    return next((pair for pair in words if pair[0] != "ok"), ("ok", ""))


def _word(row: Fault, position: int) -> str:
    if position < 0 or (position >= len(row.codes) and not row.forever):
        return "ok"
    return row.codes[position % len(row.codes)]


def _fault_matches(row: Fault, call: Call, zone: str) -> bool:
    market = "spot" if call.parameters.get("InstanceMarketOptions.MarketType") == "spot" else "on_demand"
    facts = [
        (call.region, row.region),
        (zone, row.zone),
        (call.parameters.get("InstanceType", ""), row.instance_type),
        (market, row.market),
    ]
    return _matches(row.action, call) and all(fnmatchcase(value, pattern) for value, pattern in facts)


def _matches(pattern: str, call: Call) -> bool:
    return fnmatchcase(call.action, pattern) or fnmatchcase(f"{call.service}:{call.action}", pattern)


def entry(call: Call, started: float, status: int, code: str | None, fault: str) -> dict[str, object]:
    """The call as a line of the log."""
    return {
        "t": started,
        "seconds": time.time() - started,
        "service": call.service,
        "action": call.action,
        "region": call.region,
        "iam": call.iam_actions(),
        "status": status,
        "code": code,
        "fault": fault,
        "parameters": json.loads(json.dumps(call.parameters, default=str)),
    }
