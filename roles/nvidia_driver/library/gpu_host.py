#!/usr/bin/python
"""Looks at a machine's GPUs and at the driver that it has. Changes nothing."""

import glob
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.controller import OPTION, refuse_controller
from ansible.module_utils.driver_choice import PACKAGES, RefusedError, choose, gpu_ids, next_step
from ansible.module_utils.driver_modules import built_version
from ansible.module_utils.training import is_training

DOCUMENTATION = """
module: gpu_host
short_description: Look at the GPUs and the driver that is there
description: >-
  Returns C(branch), C(packages), C(kernel) (the running one's release), C(next_kernel) (the next boot's), C(step)
  (nothing, C(load) or C(reboot): what makes the built driver the loaded one) and C(is_training). With C(built) the
  driver must be built.
options:
  gpus: {type: int, required: true, description: How many there must be.}
  branch: {type: str, default: "", description: The branch that is wanted; empty for any.}
  controller_id: {type: str, required: true, description: Machine id of the controller, which is no trainer.}
  built: {type: bool, default: false, description: Whether the driver is installed by now.}
author: The authors of this project
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "int", "required": True}, "branch": {"type": "str", "default": ""},
            "built": {"type": "bool", "default": False},
        } | OPTION,
        supports_check_mode=True,
    )
    refuse_controller(module, "look for GPUs")
    kernel = os.uname().release
    try:
        branch = choose(gpu_ids(pci_devices()), module.params["branch"], module.params["gpus"])
        step = next_step(read("/sys/module/nvidia/version"), built_version(module, branch, kernel), has_nouveau()) \
            if module.params["built"] else ""
    except RefusedError as error:
        module.fail_json(msg=f"Failed to give this machine a driver: {error}")
    newest = next_kernel(kernel)
    if module.params["built"] and not built_version(module, branch, newest):
        module.warn(f"The next boot brings kernel {newest}, for which no driver is built; now {kernel} runs")
    module.exit_json(
        changed=False, branch=branch, packages=PACKAGES[branch], kernel=kernel, next_kernel=newest, step=step,
        is_training=is_training(module),
    )


def pci_devices():
    for path in sorted(glob.glob("/sys/bus/pci/devices/*")):
        yield tuple(read(f"{path}/{name}") for name in ("class", "vendor", "device"))


def next_kernel(running):
    """What the boot loader takes: Debian keeps this link at the newest kernel."""
    name = os.path.basename(os.path.realpath("/vmlinuz"))
    return name.removeprefix("vmlinuz-") if name.startswith("vmlinuz-") else running


def has_nouveau():
    return os.path.isdir("/sys/module/nouveau")


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
