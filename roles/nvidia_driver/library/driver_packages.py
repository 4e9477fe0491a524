#!/usr/bin/python
"""Installs the driver's packages and holds them; a failed build is told with its reason and leaves dpkg whole."""

import glob
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.driver_choice import compile_errors

DOCUMENTATION = """
module: driver_packages
short_description: Install and hold the driver's packages
description:
  - The headers of the running kernel come first; without them no module can be built, which is an error of its own.
  - Packages whose module does not build are removed again, and the compiler's errors are the message.
options:
  packages: {type: list, elements: str, required: true, description: The driver's packages.}
  kernel: {type: str, required: true, description: The running kernel's release.}
author: The authors of this project
"""
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
APT = ["apt-get", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]
LOGS = "/var/lib/dkms/*/*/build/make.log"
KERNEL_PACKAGES = ["linux-image-amd64", "linux-headers-amd64"]


def main():
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "required": True},
            "kernel": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    headers = f"linux-headers-{module.params['kernel']}"
    wanted = [headers, *module.params["packages"]]
    missing = [name for name in wanted if not is_installed(module, name)]
    if missing and not module.check_mode:
        install(module, headers, missing)
    held = hold(module, [*wanted, f"linux-image-{module.params['kernel']}", *KERNEL_PACKAGES])
    module.exit_json(changed=bool(missing or held), installed=missing, held=held)


def is_installed(module, name):
    code, out, _ = module.run_command(["dpkg-query", "-W", "-f", "${db:Status-Status}", name])
    return code == 0 and out == "installed"


def install(module, headers, missing):
    module.run_command([*APT, "update"], environ_update=ENVIRONMENT)
    if headers in missing:
        code, out, err = module.run_command([*APT, "install", headers], environ_update=ENVIRONMENT)
        if code:
            module.fail_json(
                msg=f"Failed to install {headers}, the headers of the running kernel: {last(out, err)}\nThose of an "
                "older kernel leave the archive: install the newest linux-image-amd64 and boot it, or take a new image"
            )
    code, out, err = module.run_command([*APT, "install", *missing], environ_update=ENVIRONMENT)
    if code:
        reason = "\n".join(build_errors()) or last(out, err)
        remove(module, [name for name in missing if name != headers])
        module.fail_json(msg=f"Failed to install the driver for kernel {module.params['kernel']}: {reason}")


def build_errors():
    """What the compiler said in each build that left a log: DKMS keeps those of builds that failed."""
    for path in sorted(glob.glob(LOGS), key=os.path.getmtime):
        with open(path, errors="replace") as file:
            yield f"{path}:\n{compile_errors(file.read())}"


def remove(module, names):
    """A package that is half configured would fail every later use of apt on this machine."""
    code, out, err = module.run_command([*APT, "purge", "--autoremove", *names], environ_update=ENVIRONMENT)
    if code:
        module.warn(f"dpkg is not whole, the driver's packages could not be removed again: {last(out, err)}")


def hold(module, names):
    """Holds those that are installed; a name that this machine lacks needs no hold. Returns the newly held."""
    _, out, _ = module.run_command(["apt-mark", "showhold"])
    free = [name for name in names if name not in out.split() and is_installed(module, name)]
    if free and not module.check_mode:
        code, out, err = module.run_command(["apt-mark", "hold", *free])
        if code:
            module.fail_json(msg=f"Failed to hold {' '.join(free)}: {last(out, err)}")
    return free


def last(out, err):
    return "\n".join((out + err).strip().splitlines()[-8:])


if __name__ == "__main__":
    main()
