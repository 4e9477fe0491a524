"""The one machine that no role may take for a trainer: the controller itself. Shared by the roles (ansible.cfg)."""

ID_FILE = "/etc/machine-id"
OPTION = {"controller_id": {"type": "str", "required": True}}


def refuse_controller(module, attempt):
    """Fails unless this host's /etc/machine-id differs from the controller's, the option `controller_id`.

    Where neither has one nobody can tell, which fails as well.
    """
    here, controller = machine_id(), module.params["controller_id"].strip()
    if here != controller:
        return
    known = "the same /etc/machine-id" if here else "or cannot be told from it: neither has an /etc/machine-id"
    module.fail_json(
        msg=f"Failed to {attempt}: this host is the machine that ansible-playbook runs on ({known}), not a rented "
        "trainer; check ansible_host and ansible_connection in the inventory"
    )


def machine_id():
    try:
        with open(ID_FILE) as file:
            return file.read().strip()
    except OSError:
        return ""
