"""What is known of the driver's modules on this machine. Changes nothing."""

from ansible.module_utils.driver_choice import MODULES


def built_version(module, branch, kernel):
    """The version of the branch's module for that kernel; empty when there is none."""
    code, out, _ = module.run_command(["modinfo", "-k", kernel, "-F", "version", MODULES[branch]])
    return out.strip() if code == 0 else ""
