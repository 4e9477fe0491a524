#!/usr/bin/python
"""The trainer's units as files: all in one go, each judged by systemd before it lands."""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: trainer_units
short_description: Install systemd units
description:
  - A unit that systemd-analyze finds at fault replaces nothing. To load and start them is another's work.
  - Returns C(files), those that changed.
options:
  directory: {type: path, default: /etc/systemd/system, description: Where they lie.}
  units: {type: dict, required: true, description: The text of each unit by its name.}
author: The authors of this project
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "default": "/etc/systemd/system"}, "units": {"type": "dict", "required": True}
        },
        supports_check_mode=True,
    )
    diff = [difference(module, name, text) for name, text in module.params["units"].items()]
    changed = [each for each in diff if each["before"] != each["after"]]
    if not module.check_mode:
        for each in changed:
            install(module, each["after_header"], each["after"])
    module.exit_json(changed=bool(changed), files=[each["after_header"] for each in changed], diff=changed)


def difference(module, name, text):
    path = os.path.join(module.params["directory"], name)
    try:
        with open(path) as file:
            before = file.read()
    except OSError:
        before = ""
    return {"before": before, "after": text, "before_header": path, "after_header": path}


def install(module, path, text):
    with tempfile.NamedTemporaryFile("w", dir=module.tmpdir, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    name = os.path.basename(path)
    code, out, err = module.run_command(["systemd-analyze", "verify", "--man=no", f"{file.name}:{name}"])
    if code:
        module.fail_json(msg=f"Failed to install {path}: {(out + err).strip()}")
    module.atomic_move(file.name, path)


if __name__ == "__main__":
    main()
