#!/usr/bin/python
"""The market of every region as a ranked plan: what a run costs where, and when it is ready. Rents nothing."""

import json
import os
from datetime import UTC, datetime

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils.market_limits import parse_deadline
    from ansible.module_utils.market_offers import make_plan
    from ansible.module_utils.market_page import render_page
    from ansible.module_utils.market_table import failure_message, render_table
    from ansible.module_utils.market_types import alternatives, refusal
    from ansible.module_utils.spot_survey import survey
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: spot_offers
short_description: Survey the spot market of every region and rank what a run would cost
description:
  - Reads prices, offerings, quotas, placement scores and snapshots of all regions at once. Changes nothing at AWS.
  - Writes the plan as JSON and, beside it, as a page of HTML. In check mode it writes neither.
  - Returns C(plan) (what is in the JSON file) and C(table) (the same for a terminal).
options:
  plan_path: {type: path, required: true, description: "The JSON file; the page has the same name with .html."}
  instance_types: {type: list, elements: str, required: true, description: Types to compare.}
  profiles: {type: dict, required: true, description: What is known of each type.}
  regions: {type: list, elements: str, default: [], description: Only these regions; empty for every enabled one.}
  snapshot_id: {type: str, default: "", description: The data set's snapshot.}
  snapshot_tags: {type: dict, default: {}, description: Tags that the data set's snapshots carry.}
  kms_key_alias: {type: str, default: "", description: The key that copies are encrypted with; empty for AWS's own.}
  dataset_gb: {type: int, required: true, description: Size of the volume when there is no snapshot.}
  epochs: {type: float, required: true, description: Epochs to train.}
  images: {type: int, required: true, description: Images an epoch.}
  attained_share: {type: float, required: true, description: Share of a published roof that training attains.}
  measured_images_per_second: {type: dict, default: {}, description: Images a second that a tuning found; by type.}
  interruptions_per_hour: {type: float, description: Of a running spot instance; left out, the profile's.}
  checkpoint_interval_seconds: {type: float, required: true, description: Time between two checkpoints.}
  max_price_usd: {type: float, description: Most that an hour may cost.}
  max_price_by_region_usd: {type: dict, default: {}, description: The same for single regions.}
  deadline: {type: str, default: "", description: "When the run must be ready: a date and time, or hours from now."}
  budget_usd: {type: float, description: Most that the run may cost.}
  rates: {type: dict, required: true, description: What copying and storing cost.}
  on_demand_table: {type: dict, required: true, description: Prices for when the pricing API has none.}
  timeout_seconds: {type: float, default: 120, description: How long to wait for the slowest region.}
author: The authors of this project
"""

OPTIONS = {
    "plan_path": {"type": "path", "required": True},
    "instance_types": {"type": "list", "elements": "str", "required": True},
    "profiles": {"type": "dict", "required": True},
    "regions": {"type": "list", "elements": "str", "default": []},
    "snapshot_id": {"type": "str", "default": ""},
    "snapshot_tags": {"type": "dict", "default": {}},
    "kms_key_alias": {"type": "str", "default": ""},
    "dataset_gb": {"type": "int", "required": True},
    "epochs": {"type": "float", "required": True},
    "images": {"type": "int", "required": True},
    "attained_share": {"type": "float", "required": True},
    "measured_images_per_second": {"type": "dict", "default": {}},
    "interruptions_per_hour": {"type": "float"},
    "checkpoint_interval_seconds": {"type": "float", "required": True},
    "max_price_usd": {"type": "float"},
    "max_price_by_region_usd": {"type": "dict", "default": {}},
    "deadline": {"type": "str", "default": ""},
    "budget_usd": {"type": "float"},
    "rates": {"type": "dict", "required": True},
    "on_demand_table": {"type": "dict", "required": True},
    "timeout_seconds": {"type": "float", "default": 120},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    module.params["instance_types"] = list(dict.fromkeys(module.params["instance_types"]))
    request = module.params | {"deadline": deadline(module)}
    found = look(module)
    plan = make_plan(found, request)
    baseline = plan.pop("baseline")
    table = render_table(plan, baseline)
    if not module.check_mode:
        write(module, plan, render_page(plan, found, table))
    if not plan["offers"]:
        module.fail_json(msg=failure_message(plan, alternatives(found, request)))
    module.exit_json(changed=False, plan=plan, table=table)


def look(module):
    names = ("regions", "snapshot_id", "snapshot_tags", "kms_key_alias", "timeout_seconds")
    profiles, types = module.params["profiles"], module.params["instance_types"]
    runnable = [name for name in profiles if not refusal(name, profiles)]
    wanted = {name: module.params[name] for name in names} | {
        "types": [name for name in types if name in runnable], "known_types": runnable,
    }
    try:
        return survey(wanted)
    except OSError as error:
        return module.fail_json(msg=f"Failed to read the list of regions from AWS: {error}")


def deadline(module):
    try:
        return parse_deadline(module.params["deadline"], datetime.now(UTC))
    except ValueError as error:
        return module.fail_json(msg=str(error))


def write(module, plan, page):
    """Both files, each replaced as a whole. No change in Ansible's sense: they tell what was read, and when."""
    path = module.params["plan_path"]
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        replace(path, json.dumps(plan, indent=2) + "\n")
        replace(os.path.splitext(path)[0] + ".html", page)
    except OSError as error:
        module.fail_json(msg=f"Failed to write the plan to {path}: {error}")


def replace(path, text):
    with open(path + ".draft", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".draft", path)


if __name__ == "__main__":
    main()
