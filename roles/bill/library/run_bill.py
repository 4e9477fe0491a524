#!/usr/bin/python
"""What a run has cost so far, and what of it is still there, in every region. Changes nothing at AWS."""

import os
import time
from datetime import UTC, datetime
from functools import partial

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import boto3
    from ansible.module_utils import bill_ledger, bill_losses
    from ansible.module_utils.bill_costs import bill_rows, total
    from ansible.module_utils.bill_prices import add_prices
    from ansible.module_utils.bill_scan import ACCOUNT, scan_account, scan_region
    from ansible.module_utils.bill_text import render
    from ansible.module_utils.spot_survey import client_maker, region_statuses, side_by_side
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: run_bill
short_description: The bill of a run, and what of it is alive
description:
  - Looks in every enabled region at once for what carries the run's tag, adds it to C(ledger.json) in C(directory), and
    writes C(bill.json) there. In check mode it writes neither.
  - Returns C(bill) (what is in bill.json) and C(table) (the same for a terminal).
options:
  run: {type: str, required: true, description: The run's name, the value of the tag C(run).}
  directory: {type: path, required: true, description: The run's directory on this side.}
  rates: {type: dict, required: true, description: What copying and storing cost.}
  on_demand_table: {type: dict, required: true, description: Prices for when the pricing API has none.}
  until_gone_seconds: {type: float, default: 0, description: How long to look again while something is left.}
  timeout_seconds: {type: float, default: 120, description: How long to wait for the slowest region.}
author: The authors of this project
"""
PAUSE_SECONDS = 5
OPTIONS = {
    "run": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "rates": {"type": "dict", "required": True},
    "on_demand_table": {"type": "dict", "required": True},
    "until_gone_seconds": {"type": "float", "default": 0},
    "timeout_seconds": {"type": "float", "default": 120},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    try:
        bill = look_until_gone(module.params, module.check_mode)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"Failed to make the bill of {module.params['run']}: {error}")
    module.exit_json(changed=False, bill=bill, table=render(bill))


def look_until_gone(params, is_check):
    deadline = time.monotonic() + params["until_gone_seconds"]
    while True:
        bill = look(params, datetime.now(UTC), is_check)
        is_gone = not (bill["alive"] or bill["left"] or bill["unknown"])
        if is_gone or time.monotonic() + PAUSE_SECONDS > deadline:
            return bill
        time.sleep(PAUSE_SECONDS)


def look(params, now, is_check):
    """The bill. OSError: no region answers, or the disk; ValueError: a damaged ledger."""
    if not params["run"].strip():
        raise ValueError("run must be the run's name, got nothing: everybody's machines would be on the bill")
    client = client_maker(boto3.session.Session())
    home, statuses = region_statuses(client, boto3.session.Session().region_name)
    enabled = [name for name, status in statuses.items() if status != "not-opted-in"]
    jobs = {name: partial(scan_region, client, name, params["run"]) for name in enabled}
    jobs[ACCOUNT] = partial(scan_account, client, home, params["run"])
    done = side_by_side(jobs, params["timeout_seconds"])
    if is_check:
        return make_bill(params, client, done, now)[0]
    with bill_ledger.locked(place(params, "ledger.json")):
        bill, rows = make_bill(params, client, done, now)
        bill_ledger.write(place(params, "ledger.json"), {"run": params["run"], "rows": rows})
        bill_ledger.write(place(params, "bill.json"), bill)
    return bill


def make_bill(params, client, done, now):
    """(the bill, the ledger's rows); done: {region: (scan, reason, seconds)}."""
    scans = {name: scan for name, (scan, reason, _) in done.items() if not reason and not isinstance(scan, str)}
    seen = [row for scan in scans.values() for row in scan["costs"]]
    at = int(now.timestamp())
    heard = [event["t"] for event in bill_losses.read_events(place(params, "events.jsonl"))]
    ledger = bill_ledger.merge(bill_ledger.read(place(params, "ledger.json")), seen, set(scans), at, heard)
    notes = add_prices(ledger, client, params["on_demand_table"], now, params["timeout_seconds"])
    rows = bill_rows(ledger, params["rates"], at)
    return {
        "run": params["run"], "at": at, "rows": rows, "total_usd": total(rows),
        "on_demand_usd": total(rows, "on_demand_usd"),
        "lost_work": bill_losses.lost_work(bill_losses.read_events(place(params, "events.jsonl")), rows),
        "alive": [row for row in seen if row["alive"] and not row.get("shared")],
        "shared": [row for row in seen if row["alive"] and row.get("shared")],
        "left": [row for scan in scans.values() for row in scan["left"]],
        "strangers": [row for scan in scans.values() for row in scan["strangers"]],
        "unknown": unknown(done, ledger), "notes": notes,
    }, ledger


def unknown(done, ledger):
    """The regions that may hold something of the run that nobody has seen.

    A region that may not be used is none of them, unless something was seen there, or none may be used.
    """
    held = {row["region"] for row in ledger.values() if row["until"] is None}
    denied = {name: scan for name, (scan, reason, _) in done.items() if not reason and isinstance(scan, str)}
    is_nowhere = len(denied) == len(done.keys() - {ACCOUNT})
    failed = {name: reason for name, (_, reason, _) in done.items() if reason}
    failed |= {name: why for name, why in denied.items() if is_nowhere or name in held}
    return [f"{name}: {reason}" for name, reason in failed.items()]


def place(params, name):
    return os.path.join(params["directory"], name)


if __name__ == "__main__":
    main()
