"""The ledger: every instance, volume and snapshot of a run that was ever seen, each once, from when until when.

AWS forgets a terminated instance after an hour and a deleted volume at once; the ledger does not. One JSON file:
{"run", "rows": {key: row}}; a row is one of bill_scan.py with "last_seen" (unix seconds), "until_is" ("told" by AWS,
"seen": it was there until then at least, "about": it had ended when it was looked for, or "instance": it went with its
instance) and, for instances, "spot_prices" [[since, USD an hour]] and "on_demand_usd_per_hour".
"""

import fcntl
import json
import os
from contextlib import contextmanager

# What AWS never charges for by itself is looked at, and not kept.
KEPT = ("instance", "volume", "snapshot")


def merge(rows, seen, surveyed, now, heard=()):
    """The ledger's rows with what a scan saw. surveyed: regions that answered; elsewhere nothing is seen to end.

    heard: when the run's events happened (unix seconds): its machine was there then.
    """
    merged = {key: dict(row) for key, row in rows.items()}
    for row in seen:
        if row["kind"] in KEPT:
            merged[row["key"]] = _seen(merged.get(row["key"], {}), row, now)
    keys = {row["key"] for row in seen}
    for key, row in merged.items():
        if key not in keys and row["until"] is None and row["region"] in surveyed:
            row |= {"until": row["last_seen"], "until_is": "seen", "alive": False, "state": "gone"}
    _end_as_requests_tell(merged, seen)
    _end_after_the_last_event(merged, heard)
    _end_with_instances(merged)
    return merged


def _seen(known, row, now):
    """What is told counts more than what was known; a time of end that was told once is not taken back by a silence."""
    facts = {**known, **row}
    if row["alive"]:
        until = {"until": row["until"], "until_is": "told" if row["until"] else None, "last_seen": now}
    elif row["until"] is not None:
        until = {"until": row["until"], "until_is": "told"}
    elif known.get("until") is not None:
        until = {"until": known["until"], "until_is": known["until_is"]}
    else:
        until = {"until": now, "until_is": "about"}
    return {"last_seen": now} | facts | until


def _end_as_requests_tell(rows, seen):
    """AWS shows a spot request longer than its instance."""
    ends = {row["instance_id"]: row for row in seen if row["kind"] == "spot_request" and row.get("instance_ended")}
    for row in rows.values():
        told = ends.get(row["id"])
        if told and row["until_is"] in ("seen", "about"):
            interrupted = row["interrupted"] or told["instance_interrupted"]
            row |= {"until": told["instance_ended"], "until_is": "told", "interrupted": interrupted}


def _end_after_the_last_event(rows, heard):
    instances = [row for row in rows.values() if row["kind"] == "instance"]
    for row in instances:
        if row["until_is"] == "seen":
            successor = min((other["from"] for other in instances if other["from"] > row["from"]), default=float("inf"))
            row["until"] = max([row["until"], *(int(moment) for moment in heard if moment < successor)])


def _end_with_instances(rows):
    """A volume that is deleted with its instance was charged until then, not only until somebody looked last."""
    ends = {row["id"]: row["until"] for row in rows.values() if row["kind"] == "instance"}
    for row in rows.values():
        end = ends.get(row.get("ends_with"))
        if row.get("until_is") == "seen" and end is not None and end > row["until"]:
            row |= {"until": end, "until_is": "instance"}


def read(path):
    """{} when there is none; ValueError when it is no ledger."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["rows"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} must be a ledger in JSON, got {type(error).__name__}: {error}") from error


def write(path, value):
    """Replaces the file as a whole: whoever is killed at any moment leaves the old one or the new one."""
    with open(path + ".draft", "w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2, sort_keys=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".draft", path)


@contextmanager
def locked(path):
    """One process at a time reads, adds and writes."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
