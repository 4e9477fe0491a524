#!/usr/bin/python
"""The trainer's units as they should be: training, or finished, and watched, all with what is on disk now."""

import hashlib
import json
import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: trainer_service
short_description: Let the trainer's units run
description:
  - Ends when steps flow and the page is served (the units are then active), or with the end of a unit's journal.
  - The timer that powers an idle host off runs if it is to, and counts from the start of the trainer anew.
  - The timer that powers off a rented host that nobody configures ends when steps flow.
  - A trainer that was started from other files is drained (it writes a checkpoint and ends) and started anew.
  - A finished run is left alone; its monitor runs on.
options:
  run_directory: {type: path, required: true, description: The run's directory.}
  units:
    type: dict
    required: true
    description:
      - The units in the order of their start, each with the files that a start is made from.
      - A start notes their digest in /run/UNIT/revision.
  power_off: {type: bool, required: true, description: Whether the host powers itself off when it is idle.}
  foreseen:
    type: list
    elements: str
    default: []
    description: Files that are to change when changes are only predicted; on disk they are still the old ones.
author: The authors of this project
"""
TRAINER = "trainer.service"
POWER_OFF = "trainer-power-off.timer"
UNCONFIGURED = "unconfigured-power-off.timer"  # of role spot_instance, from the first boot on
JOURNAL_LINES = 30


def main():
    module = AnsibleModule(
        argument_spec={
            "run_directory": {"type": "path", "required": True}, "units": {"type": "dict", "required": True},
            "power_off": {"type": "bool", "required": True},
            "foreseen": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    attempt(module, ["systemctl", "daemon-reload"])
    changed = [enable(module), switch(module, POWER_OFF, module.params["power_off"])]
    actions = {unit: bring(module, unit, files) for unit, files in module.params["units"].items()}
    changed += [switch(module, UNCONFIGURED, False), *actions.values()]
    module.exit_json(changed=any(changed), actions=actions)


def enable(module):
    code, _, _ = module.run_command(["systemctl", "is-enabled", "--quiet", TRAINER])
    if code and not module.check_mode:
        attempt(module, ["systemctl", "enable", *module.params["units"]])
    return bool(code)


def switch(module, timer, wanted):
    code, _, _ = module.run_command(["systemctl", "is-active", "--quiet", timer])
    if (code == 0) == wanted:
        return False
    if not module.check_mode:
        attempt(module, ["systemctl", "enable" if wanted else "disable", "--now", timer])
    return True


def bring(module, unit, files):
    """What was needed: "start", "restart" or nothing."""
    action = needed(module, unit, files)
    if action and not module.check_mode:
        start(module, unit, action)
    return action


def needed(module, unit, files):
    active = module.run_command(["systemctl", "is-active", unit])[1].strip()
    if active in ("active", "activating", "reloading"):
        is_current = read(f"/run/{unit.removesuffix('.service')}/revision") == revision(files)
        return "" if is_current and not set(files) & set(module.params["foreseen"]) else "restart"
    return "" if unit == TRAINER and is_finished(module) else "start"


def is_finished(module):
    try:
        return bool(json.loads(read(os.path.join(module.params["run_directory"], "report.json"))).get("finished"))
    except ValueError:
        return False


def revision(files):
    """As sha256sum prints it in the unit, which passes over a file that is not there."""
    lines = []
    for name in filter(os.path.exists, files):
        with open(name, "rb") as file:
            lines.append(f"{hashlib.sha256(file.read()).hexdigest()}  {name}\n")
    return "".join(lines)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def start(module, unit, action):
    """A start after a crash loop is a new beginning: its counter is set back."""
    module.run_command(["systemctl", "reset-failed", unit])
    if unit == TRAINER:
        module.run_command(["systemctl", "try-restart", POWER_OFF])
    code, out, err = module.run_command(["systemctl", action, unit])
    if code == 0:
        return
    _, journal, _ = module.run_command(
        ["journalctl", "-u", unit, "-n", str(JOURNAL_LINES), "--no-pager", "-o", "cat"]
    )
    module.run_command(["systemctl", "stop", unit])  # or it goes on trying while nobody looks
    module.fail_json(msg=f"Failed to {action} {unit}: {(out + err).strip()}\nThe end of its journal:\n{journal}")


def attempt(module, command):
    code, out, err = module.run_command(command)
    if code:
        module.fail_json(msg=f"Failed to run {' '.join(command)}: {(out + err).strip()}")


if __name__ == "__main__":
    main()
