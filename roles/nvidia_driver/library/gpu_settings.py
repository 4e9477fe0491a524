#!/usr/bin/python
"""Clocks and error correction of every GPU, set and read back; the count of GPUs that answer."""

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: gpu_settings
short_description: Set every GPU's clocks and error correction, and prove that all GPUs answer
description: Returns C(reboot_needed); a change of error correction needs one.
options:
  gpus: {type: int, required: true, description: How many GPUs must answer.}
  clocks_mhz: {type: str, default: "", description: Memory and graphics clock with a comma; empty to leave them.}
  ecc: {type: str, default: "", description: on or off; empty to leave it.}
author: The authors of this project
"""
QUERY = "clocks.applications.memory,clocks.applications.graphics,ecc.mode.current,ecc.mode.pending"
MODES = {"on": ("Enabled", "1"), "off": ("Disabled", "0")}


def main():
    module = AnsibleModule(
        argument_spec={
            "gpus": {"type": "int", "required": True}, "clocks_mhz": {"type": "str", "default": ""},
            "ecc": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    before = read(module)
    clocks_differ, ecc_differs = differences(module, before)
    if not module.check_mode:
        if clocks_differ:
            smi(module, "-ac", module.params["clocks_mhz"].replace(" ", ""))
        if ecc_differs:
            smi(module, "-e", MODES[module.params["ecc"]][1])
        if clocks_differ or ecc_differs:
            check(module)
    wanted = MODES.get(module.params["ecc"], ("",))[0]
    module.exit_json(
        changed=clocks_differ or ecc_differs, reboot_needed=bool(wanted) and any(row[2] != wanted for row in before)
    )


def read(module):
    """[memory clock, graphics clock, current mode, pending mode] of each GPU."""
    out = smi(module, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits")
    rows = [[field.strip() for field in line.split(",")] for line in out.splitlines() if line.strip()]
    if len(rows) != module.params["gpus"]:
        module.fail_json(msg=f"Failed to prove the GPUs: {module.params['gpus']} must answer, got {len(rows)}")
    return rows


def differences(module, rows):
    clocks = [part.strip() for part in module.params["clocks_mhz"].split(",") if part.strip()]
    pending = MODES.get(module.params["ecc"], ("", ""))[0]
    clocks_differ = bool(clocks) and any(row[:2] != clocks for row in rows)
    return clocks_differ, bool(pending) and any(row[3] != pending for row in rows)


def check(module):
    """A GPU can take a setting without a word of error and not have it."""
    rows = read(module)
    if any(differences(module, rows)):
        module.fail_json(msg=f"Failed to set the GPUs: asked for {module.params}, read back {rows}")


def smi(module, *arguments):
    code, out, err = module.run_command(["nvidia-smi", *arguments])
    if code:
        said = (out + err).strip()
        module.fail_json(msg=f"Failed to run nvidia-smi {' '.join(arguments)} (exit code {code}): {said}")
    return out


if __name__ == "__main__":
    main()
