"""The launch that is under way, on the controller's disk before AWS hears of it.

A controller killed between the call and its answer, or before AWS shows what it made, asks again with the same token:
AWS answers with the same instance. Only its owner may read the file.
"""

import json
import os
import time


def read_journal(path):
    """{"attempt", "region", "token", "offer", "parameters" (without user data), "at"}; {} without one.

    ValueError: the file is damaged.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"Failed to read the journal of launches {path}: {error}") from error


def write_journal(path, entry):
    """Replaces the file as a whole; it is on the disk when this returns."""
    draft = path + ".draft"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(entry, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def is_open(journal, shown_seconds):
    """Whether what the entry asked for may exist without being shown yet."""
    return "token" in journal and time.time() - journal["at"] < shown_seconds


def wait_until_shown(client, journal, shown_seconds):
    """Waits for the instance of an open entry; returns at once when it is shown, or when there is no such entry."""
    filters = [{"Name": "client-token", "Values": [journal.get("token", "")]}]
    while is_open(journal, shown_seconds):
        if client("ec2", journal["region"]).describe_instances(Filters=filters)["Reservations"]:
            break
        time.sleep(2)
