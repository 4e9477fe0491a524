#!/usr/bin/python
"""The instances of a run in every enabled region, and the spot requests that may launch more. Changes nothing."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    from ansible.module_utils.launch_journal import is_open, read_journal
    from ansible.module_utils.run_look import look
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: spot_instance_info
short_description: Find the instances of a run
description:
  - Looks in every region that the account has enabled, by the run's tags, the token of the last launch and the run's
    spot requests. Changes nothing.
  - Returns C(instances), C(requests) (those that may launch by themselves), C(skipped) (regions that the account may
    not use) and C(is_open) (whether a launch of the last minutes may not be shown yet).
options:
  run: {type: str, required: true, description: The run's name.}
  journal_path: {type: path, required: true, description: The journal of launches.}
  shown_seconds: {type: float, required: true, description: How long AWS may take to show what it made.}
author: The authors of this project
"""

OPTIONS = {
    "run": {"type": "str", "required": True},
    "journal_path": {"type": "path", "required": True},
    "shown_seconds": {"type": "float", "required": True},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    try:
        journal = read_journal(module.params["journal_path"])
        found = look(module.params["run"], journal)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"Failed to find the instances of run {module.params['run']}: {error}")
    module.exit_json(changed=False, is_open=is_open(journal, module.params["shown_seconds"]), **found)


if __name__ == "__main__":
    main()
