#!/usr/bin/python
"""Installs the driver's packages and holds them; a failed build is told with its reason and leaves dpkg whole."""

import glob
import os
import time

from ansible.module_utils.apt_sources import TARGETS, has_all, source_lines
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.driver_choice import ALTERNATIVES, compile_errors, must_choose
from ansible.module_utils.driver_modules import built_version

DOCUMENTATION = """
module: driver_packages
short_description: Install and hold the driver's packages
description:
  - The headers of the running kernel come first; without them no module can be built, which is an error of its own.
  - Packages whose module does not build are removed again, and the compiler's errors are the message.
  - A module that its packages lack for this kernel is built, and of several branches this one is loaded from now on.
  - Where the sources leave out the components that have the driver, they are read from the same mirrors.
options:
  packages: {type: list, elements: str, required: true, description: The driver's packages.}
  kernel: {type: str, required: true, description: The running kernel's release.}
  branch: {type: str, default: "", description: The driver's branch; empty for packages that have no module.}
author: The authors of this project
"""
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
APT = ["apt-get", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
# Without the option it is content when a mirror does not answer.
UPDATE = [*APT, "-o", "APT::Update::Error-Mode=any", "update"]
SOURCES = "/etc/apt/sources.list.d/nvidia-driver.list"
LOGS = "/var/lib/dkms/*/*/build/make.log"
# Debian's images for clouds have a kernel of their own.
KERNEL_PACKAGES = [f"linux-{part}-{kind}" for part in ("image", "headers") for kind in ("amd64", "cloud-amd64")]
TRIES, PAUSE_SECONDS, LOCKED_SECONDS = 3, 5, 300


def main():
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "required": True},
            "kernel": {"type": "str", "required": True}, "branch": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    headers = f"linux-headers-{module.params['kernel']}"
    wanted = [headers, *module.params["packages"]]
    missing = [name for name in wanted if not is_installed(module, name)]
    if missing and not module.check_mode:
        install(module, headers, missing)
    mended = bool(module.params["branch"]) and any([build(module), choose(module)])
    held = hold(module, [*wanted, f"linux-image-{module.params['kernel']}", *KERNEL_PACKAGES])
    module.exit_json(changed=bool(missing or mended or held), installed=missing, held=held)


def is_installed(module, name):
    code, out, _ = module.run_command(["dpkg-query", "-W", "-f", "${db:Status-Status}", name])
    return code == 0 and out == "installed"


def install(module, headers, missing):
    began, before = time.time(), present(module)
    # A machine that went down while it installed. What that cannot mend, apt tells below.
    module.run_command(["dpkg", "--force-confold", "--configure", "-a"], environ_update=ENVIRONMENT)
    complaint = update(module)
    complaint = complaint or add_components(module, [name for name in missing if name != headers])
    if headers in missing:
        code, said = fetch_and_install(module, [headers])
        if code:
            # With a driver that is there already, it is built as soon as the headers are.
            refuse_failed_build(module, began, before, missing)
            module.fail_json(
                msg=f"Failed to install {headers}, the headers of the running kernel: {said}\n{complaint}Those of an "
                "older kernel leave the archive: install the newest linux-image-amd64 and boot it, or take a new image"
            )
    code, said = fetch_and_install(module, missing)
    if code:
        refuse_failed_build(module, began, before, missing)
        remove(module, before, missing)
        module.fail_json(
            msg=f"Failed to install the driver for kernel {module.params['kernel']}: {said}\n{complaint}"
        )


def present(module):
    """The packages of which this machine has anything."""
    _, out, _ = module.run_command(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n"], check_rc=True)
    rows = [line.split() for line in out.splitlines()]
    return {name for state, name in rows if state not in ("not-installed", "config-files")}


def build(module):
    """For a kernel that came, or became complete, after the packages; whether that was needed."""
    branch, kernel = module.params["branch"], module.params["kernel"]
    if built_version(module, branch, kernel):
        return False
    if not module.check_mode:
        began = time.time()
        _, out, err = module.run_command(["dkms", "autoinstall", "-k", kernel])
        if not built_version(module, branch, kernel):
            reason = "\n".join(build_errors(began)) or last(out, err)
            module.fail_json(msg=f"Failed to build the driver for kernel {kernel}: {reason}")
    return True


def choose(module):
    """Lets modprobe load this branch's module; whether that was needed."""
    branch = module.params["branch"]
    _, query, _ = module.run_command(["update-alternatives", "--query", "nvidia"])
    if not must_choose(branch, query):
        return False
    if not module.check_mode:
        module.run_command(["update-alternatives", "--set", "nvidia", ALTERNATIVES[branch]], check_rc=True)
    return True


def refuse_failed_build(module, began, before, missing):
    """If a build has failed since then: removes what came with it, and says why."""
    reason = "\n".join(build_errors(began))
    if reason:
        remove(module, before, missing)
        module.fail_json(msg=f"Failed to build the driver for kernel {module.params['kernel']}: {reason}")


def add_components(module, names):
    """Debian's images read its component main only, and the driver is in others. Returns what update() does."""
    policy = {
        name: module.run_command(["apt-cache", "policy", name], environ_update=ENVIRONMENT)[1] for name in names
    }
    if has_all(policy):
        return ""
    _, out, _ = module.run_command(TARGETS, check_rc=True)
    with open(SOURCES, "w") as file:
        file.write("".join(f"{line}\n" for line in source_lines(out.splitlines(), read)))
    return update(module)


def read(path):
    with open(path) as file:
        return file.read()


def update(module):
    """Reads the package lists. Returns what is to be said of that when an installation fails; old lists may do."""
    deadline, failures = time.monotonic() + LOCKED_SECONDS, 0
    while True:
        code, out, err = module.run_command(UPDATE, environ_update=ENVIRONMENT)
        if code == 0:
            return ""
        # Reading lists does not wait for the lock, as installing does.
        is_locked = "Could not get lock" in out + err
        failures += not is_locked
        if failures == TRIES or is_locked and time.monotonic() > deadline:
            return f"(Failed to read the package lists: {last(out, err)})\n"
        time.sleep(PAUSE_SECONDS)


def fetch_and_install(module, names):
    """(exit code, its last words) of apt-get; tried again when a package could not be fetched."""
    for _ in range(TRIES):
        code, out, err = module.run_command([*APT, "install", *names], environ_update=ENVIRONMENT)
        if code == 0 or "Failed to fetch" not in out + err:
            break
        time.sleep(PAUSE_SECONDS)
    return code, last(out, err)


def build_errors(began):
    """What the compiler said in each build that left a log since then: DKMS keeps those of builds that failed."""
    for path in sorted(glob.glob(LOGS), key=os.path.getmtime):
        if os.path.getmtime(path) >= int(began):
            with open(path, errors="replace") as file:
                yield f"{path}:\n{compile_errors(file.read())}"


def remove(module, before, missing):
    """A package that is half configured would fail every later use of apt on this machine. What was there stays."""
    now = present(module)
    names = sorted(now - before | now & set(missing))
    code, out, err = module.run_command([*APT, "purge", *names], environ_update=ENVIRONMENT)
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
