#!/usr/bin/python
"""trainer.service as it should be: training, with what is on disk now, or finished."""

import hashlib
import json
import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: trainer_service
short_description: Let the trainer's unit run
description:
  - Ends when steps flow (the unit is then active), or with the end of the unit's journal.
  - A trainer that was started from other files is drained (it writes a checkpoint and ends) and started anew.
  - A finished run is left alone.
options:
  run_directory: {type: path, required: true, description: The run's directory.}
  revision_file: {type: path, required: true, description: Where a start notes the digest of its files.}
  revision_of: {type: list, elements: path, required: true, description: The files that a start is made from.}
author: The authors of this project
"""
UNIT = "trainer.service"
JOURNAL_LINES = 30


def main():
    module = AnsibleModule(
        argument_spec={
            "run_directory": {"type": "path", "required": True}, "revision_file": {"type": "path", "required": True},
            "revision_of": {"type": "list", "elements": "path", "required": True},
        },
        supports_check_mode=True,
    )
    attempt(module, ["systemctl", "daemon-reload"])
    changed = enable(module)
    action = needed(module)
    if action and not module.check_mode:
        start(module, action)
    module.exit_json(changed=changed or bool(action), action=action or "none")


def enable(module):
    code, _, _ = module.run_command(["systemctl", "is-enabled", "--quiet", UNIT])
    if code and not module.check_mode:
        attempt(module, ["systemctl", "enable", "trainer.service", "trainer-monitor.service"])
    return bool(code)


def needed(module):
    """"start", "restart" or nothing."""
    active = module.run_command(["systemctl", "is-active", UNIT])[1].strip()
    if active in ("active", "activating", "reloading"):
        same = read(module.params["revision_file"]) == revision(module.params["revision_of"])
        return "" if same else "restart"
    return "" if is_finished(module) else "start"


def is_finished(module):
    try:
        return bool(json.loads(read(os.path.join(module.params["run_directory"], "report.json"))).get("finished"))
    except ValueError:
        return False


def revision(files):
    """As service.py makes it."""
    digest = hashlib.sha256()
    for name in files:
        content = b""
        if os.path.exists(name):
            with open(name, "rb") as file:
                content = file.read()
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def start(module, action):
    """A start after a crash loop is a new beginning: its counter is set back."""
    module.run_command(["systemctl", "reset-failed", UNIT])
    code, out, err = module.run_command(["systemctl", action, UNIT])
    if code == 0:
        return
    _, journal, _ = module.run_command(
        ["journalctl", "-u", UNIT, "-n", str(JOURNAL_LINES), "--no-pager", "-o", "cat"]
    )
    module.run_command(["systemctl", "stop", UNIT])  # or it goes on trying while nobody looks
    module.fail_json(msg=f"Failed to {action} training: {(out + err).strip()}\nThe end of its journal:\n{journal}")


def attempt(module, command):
    code, out, err = module.run_command(command)
    if code:
        module.fail_json(msg=f"Failed to run {' '.join(command)}: {(out + err).strip()}")


if __name__ == "__main__":
    main()
