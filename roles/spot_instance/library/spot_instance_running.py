#!/usr/bin/python
"""Makes what was found of a run into one running instance: no request that launches more, nothing stopped."""

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import boto3
    from ansible.module_utils.launch_journal import read_journal
    from ansible.module_utils.launch_walk import Stopped, in_full
    from ansible.module_utils.run_keep import keep
    from ansible.module_utils.spot_survey import client_maker
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: spot_instance_running
short_description: Make the instance that a run has run, and let nothing launch another one
description:
  - Cancels spot requests that would launch by themselves (open ones, persistent ones), which ends no instance, and
    looks again; starts an instance that is stopped; waits until it runs. In check mode it changes nothing.
  - Returns C(instance), empty when there is none.
options:
  run: {type: str, required: true, description: The run's name.}
  journal_path: {type: path, required: true, description: The journal of launches.}
  instance: {type: dict, required: true, description: The instance that was found; empty for none.}
  requests: {type: list, elements: dict, required: true, description: The requests that were found.}
author: The authors of this project
"""

OPTIONS = {
    "run": {"type": "str", "required": True},
    "journal_path": {"type": "path", "required": True},
    "instance": {"type": "dict", "required": True},
    "requests": {"type": "list", "elements": "dict", "required": True},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    run, instance, requests = (module.params[name] for name in ("run", "instance", "requests"))
    changed = bool(requests) or instance.get("state") in ("stopping", "stopped")
    if module.check_mode:
        module.exit_json(changed=changed, instance=instance)
    attempt = f"Failed to make the instance of run {run} run"
    try:
        journal = read_journal(module.params["journal_path"])
        instance = keep(client_maker(boto3.session.Session()), run, journal, instance, requests)
    except (Stopped, OSError, ValueError) as error:
        module.fail_json(msg=f"{attempt}: {error}")
    except (BotoCoreError, ClientError) as error:
        module.fail_json(msg=f"{attempt}: {in_full(error)}")
    module.exit_json(changed=changed, instance=instance)


if __name__ == "__main__":
    main()
