#!/usr/bin/python
"""Ends the instances of a run and the spot requests that may launch more; by the run's name, never by an empty one."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import boto3
    from ansible.module_utils.launch_journal import read_journal, wait_until_shown
    from ansible.module_utils.launch_walk import in_full
    from ansible.module_utils.run_end import end
    from ansible.module_utils.run_things import look_for_things
    from ansible.module_utils.spot_survey import client_maker
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: spot_instance_end
short_description: End the instances and spot requests of a run
description:
  - Cancels the run's open and persistent spot requests, terminates its instances and waits until they are gone.
  - Ends nothing when there are more instances than C(most).
  - Returns C(instances), C(requests) (what it ended) and C(things) (what else the run has; see run_things.py).
options:
  run: {type: str, required: true, description: The run's name.}
  journal_path: {type: path, required: true, description: The journal of launches.}
  most: {type: int, required: true, description: How many instances it may end.}
  shown_seconds: {type: float, required: true, description: How long AWS may take to show what it made.}
author: The authors of this project
"""

OPTIONS = {
    "run": {"type": "str", "required": True},
    "journal_path": {"type": "path", "required": True},
    "most": {"type": "int", "required": True},
    "shown_seconds": {"type": "float", "required": True},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    run, most = module.params["run"], module.params["most"]
    client = client_maker(boto3.session.Session())
    try:
        journal = read_journal(module.params["journal_path"])
        if not module.check_mode:
            wait_until_shown(client, journal, module.params["shown_seconds"])
        ended = end(client, run, journal, most, module.check_mode)
        things = look_for_things(run)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"Failed to end run {run}: {error}")
    except (BotoCoreError, ClientError) as error:
        module.fail_json(msg=f"Failed to end run {run}: {in_full(error)}")
    module.exit_json(changed=bool(ended["instances"] or ended["requests"]), things=things, **ended)


if __name__ == "__main__":
    main()
