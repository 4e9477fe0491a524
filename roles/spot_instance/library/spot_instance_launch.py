#!/usr/bin/python
"""Walks the offers of one region until an instance runs. Never an open request, never two instances."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils.launch_here import launch_here
    from ansible.module_utils.launch_walk import Stopped, in_full
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: spot_instance_launch
short_description: Launch one instance from ranked offers of a region
description:
  - First repeats a launch of which nobody knows whether AWS carried it out; then takes the offers in turn.
  - Returns C(instance) (empty when no offer could be had) and C(tried) (each offer with its error and what it means).
  - For callers that have looked for the run's instances before; it does not look itself. No check mode.
options:
  run: {type: str, required: true, description: The run's name.}
  journal_path: {type: path, required: true, description: The journal of launches.}
  region: {type: str, default: "", description: The offers' region.}
  offers: {type: list, elements: dict, default: [], description: "Ranked offers; empty: only repeat an open launch."}
  place: {type: dict, default: {}, description: "Its subnets, images and groups; see spot_instance_place."}
  key_name: {type: str, default: "", description: The EC2 key pair.}
  host_key: {type: path, required: true, description: The private ssh key that the host gets; with .pub beside it.}
  unconfigured_minutes: {type: int, required: true, description: When a host that nobody configures powers itself off.}
  tags: {type: dict, default: {}, description: Tags for all that the launch makes.}
  instance_profile: {type: str, default: "", description: Name of an IAM instance profile.}
  max_price_usd: {type: float, description: Most that an hour as spot may cost.}
  deadline: {type: float, required: true, description: "When to give up, in unix seconds."}
  shown_seconds: {type: float, required: true, description: How long AWS may take to show what it made.}
author: The authors of this project
"""

OPTIONS = {
    "run": {"type": "str", "required": True},
    "journal_path": {"type": "path", "required": True},
    "region": {"type": "str", "default": ""},
    "offers": {"type": "list", "elements": "dict", "default": []},
    "place": {"type": "dict", "default": {}},
    "key_name": {"type": "str", "default": ""},
    "host_key": {"type": "path", "required": True},
    "unconfigured_minutes": {"type": "int", "required": True},
    "tags": {"type": "dict", "default": {}},
    "instance_profile": {"type": "str", "default": ""},
    "max_price_usd": {"type": "float"},
    "deadline": {"type": "float", "required": True},
    "shown_seconds": {"type": "float", "required": True},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    attempt = f"Failed to launch an instance for run {module.params['run']}"
    try:
        instance, tried = launch_here(module.params)
    except (Stopped, OSError, ValueError) as error:
        module.fail_json(msg=f"{attempt}: {error}")
    except (BotoCoreError, ClientError) as error:
        module.fail_json(msg=f"{attempt}: {in_full(error)}")
    module.exit_json(changed=bool(instance), instance=instance, tried=tried)


if __name__ == "__main__":
    main()
