"""What interruptions cost: the work between the checkpoint that a start went on from, and the end before it. Pure.

Reads the run's events (trainer/observe/events.py) as far as they have come here; the last minute before a host was lost
may be missing, so the ledger says when it ended.
"""

import json


def read_events(path):
    """The events that have come here, oldest first; none without a file. A half-written line is passed over."""
    try:
        with open(path, "rb") as file:
            for line in file:
                event = _parse(line)
                if isinstance(event, dict) and isinstance(event.get("t"), int | float):
                    yield event
    except FileNotFoundError:
        return


def _parse(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


def lost_work(events, bill):
    """{"interruptions", "steps" (trained twice, as far as known), "seconds", "usd" (within the bill's sum)}."""
    lost = {"interruptions": 0, "steps": 0, "seconds": 0.0, "usd": 0.0}
    saved, last = {}, None  # when the checkpoint of a step was written; the newest event of the start before
    for event in events:
        if event.get("kind") == "checkpoint":
            saved[event.get("step")] = event["t"]
        elif event.get("kind") == "start" and last:
            _add(lost, event.get("resumed_step") or 0, saved, last, bill)
        if event.get("kind") in ("start", "step", "validation", "checkpoint", "stop"):
            last = event | {"step": event.get("step", event.get("resumed_step") or 0)}
    return lost | {"seconds": round(lost["seconds"], 1), "usd": round(lost["usd"], 6)}


def _add(lost, resumed, saved, last, bill):
    since = saved.get(resumed)
    if last["kind"] == "stop" or since is None:
        return
    instance = next((row for row in bill if row["kind"] == "instance" and _covers(row, since)), None)
    end = instance["until"] if instance and instance["until"] else last["t"]
    seconds = max(0.0, max(end, last["t"]) - since)
    lost["interruptions"] += 1
    lost["steps"] += max(0, last["step"] - resumed)
    lost["seconds"] += seconds
    if instance and instance["usd"] and instance["hours"]:
        lost["usd"] += instance["usd"] / instance["hours"] * seconds / 3600


def _covers(row, moment):
    return row["from"] <= moment <= (row["until"] or float("inf"))
