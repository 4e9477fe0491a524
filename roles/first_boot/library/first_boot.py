#!/usr/bin/python
"""Waits until a fresh host is done with itself: cloud-init, and whoever installs packages. Changes nothing."""

import fcntl
import os
import shutil
import struct
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.controller import OPTION, refuse_controller

DOCUMENTATION = """
module: first_boot
short_description: Wait for the end of a host's first boot
description:
  - Waits for cloud-init, then until no lock of apt or dpkg is held.
  - A first boot that ended with an error is an error, with cloud-init's reason; one with complaints is a warning.
options:
  wait_seconds: {type: int, required: true, description: How long both may take together.}
  controller_id: {type: str, required: true, description: Machine id of the controller, which is no trainer.}
author: The authors of this project
"""
LOCKS = (
    "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock",
)
TIMED_OUT, ERROR, DEGRADED = 124, 1, 2
# struct flock of 64-bit Linux: type, whence, start, length, process.
FLOCK = "hhqqi4x"


def main():
    module = AnsibleModule(
        argument_spec={"wait_seconds": {"type": "int", "required": True}} | OPTION, supports_check_mode=True
    )
    refuse_controller(module, "wait for the host's first boot")
    began = time.monotonic()
    if shutil.which("cloud-init"):
        wait_for_cloud_init(module)
    wait_for_locks(module, began + module.params["wait_seconds"])
    module.exit_json(changed=False, waited_seconds=round(time.monotonic() - began, 1))


def wait_for_cloud_init(module):
    limit = module.params["wait_seconds"]
    code, out, err = module.run_command(["timeout", str(limit), "cloud-init", "status", "--wait", "--long"])
    # It prints a dot a second while it waits.
    said = " ".join((out + err).strip(".\n").split())
    if code == TIMED_OUT:
        module.fail_json(
            msg=f"Failed to wait for the host's first boot: cloud-init was not over after {limit} s: {said}"
        )
    if code == DEGRADED:
        module.warn(f"cloud-init ended the host's first boot with complaints: {said}")
    elif code:
        module.fail_json(
            msg=f"Failed to wait for the host's first boot: cloud-init ended with an error: {said}. "
            "/var/log/cloud-init.log and cloud-init-output.log there tell more"
        )


def wait_for_locks(module, deadline):
    """Reading the package lists has no waiting of its own: apt-get fails at once when another process reads them."""
    while held := {path: pid for path in LOCKS if (pid := holder(path))}:
        if time.monotonic() >= deadline:
            words = ", ".join(f"{path} by process {pid} ({program(pid)})" for path, pid in held.items())
            module.fail_json(msg=f"Failed to wait for the host's package manager: still held: {words}")
        time.sleep(0.5)


def holder(path):
    """The process that has locked a file; 0 when none has."""
    try:
        with open(path, "rb+") as file:
            asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except FileNotFoundError:
        return 0
    return 0 if kind == fcntl.F_UNLCK else pid


def program(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "gone"


if __name__ == "__main__":
    main()
