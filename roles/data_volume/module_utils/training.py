"""Whether this host trains. Shared by the roles (ansible.cfg)."""

import shutil

UNIT = "trainer.service"


def is_training(module):
    """Or is about to: a start may wait for another unit, as at a boot.

    A unit that tells when it is ready (Type=notify) is activating for as long as its start takes: half an hour.
    """
    if not shutil.which("systemctl"):
        return False
    state = module.run_command(["systemctl", "is-active", UNIT])[1].strip()
    job = module.run_command(["systemctl", "show", "-P", "Job", UNIT])[1].strip()
    return state in ("active", "activating", "reloading", "deactivating") or job not in ("", "0")


def refuse_training(module, attempt):
    """Before files go that a training has not loaded yet."""
    if is_training(module):
        module.fail_json(msg=f"Failed to {attempt}: {UNIT} is training; stop it first: playbooks/stop.yml")
