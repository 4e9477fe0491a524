"""The controller itself is no trainer: every role that changes a rented host's disks, driver or packages refuses it."""

import json
import subprocess

import pytest
import role_modules  # noqa: F401 before the import of a role's own
from ansible.module_utils import controller
from playing import TOOLS, environment

# What each needs to get as far as its first look at the host. (mxnet_runtime, the trainer without systemd, prometheus
# and node_exporter have their place on a machine of one's own, too.)
SETTINGS = {
    "first_boot": {},
    "data_volume": {"data_volume_id": "vol-0123456789abcdef0"},
    "nvidia_driver": {"nvidia_driver_gpus": 16},
    "trainer": {
        "trainer_service": True, "trainer_data_train": "/data/train.rec", "trainer_data_val": "/data/val.rec",
        "trainer_python": "/usr/bin/python3", "trainer_code_directory": "/opt/trainer",
        "trainer_data_directory": "/data", "trainer_runs_directory": "/data", "trainer_num_classes": 10,
    },
    "machine_image": {"machine_image_instance_id": "i-0123456789abcdef0", "machine_image_marker": "/nowhere/sealed"},
}


@pytest.mark.parametrize("role", SETTINGS)
def test_the_controller_is_refused_before_anything_is_looked_at(role, tmp_path):
    """In check mode: where it is not refused, this machine is not changed either."""
    playbook = tmp_path / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "roles": [role]}]))
    done = subprocess.run(
        [TOOLS / "ansible-playbook", playbook, "--check", "-i", "mistaken,", "-c", "local", "-e", json.dumps(
            SETTINGS[role] | {"ansible_python_interpreter": "{{ ansible_playbook_python }}"})],
        env=environment(), capture_output=True, text=True, check=False,
    )
    said = " ".join(done.stdout.split())
    assert done.returncode == 2, said[-1500:]
    assert "is the machine that ansible-playbook runs on" in said
    assert "changed=0" in said and "failed=1" in said


class Module:
    """What a module's arguments are and how it fails."""

    def __init__(self, controller_id):
        self.params = {"controller_id": controller_id}

    def fail_json(self, msg):
        raise RuntimeError(msg)


@pytest.mark.parametrize("here, there, words", [
    ("a\n", "a", "the same /etc/machine-id"),
    ("", "", "neither has an /etc/machine-id"),
    ("a\n", "b", ""),
    ("a\n", "", ""),
    ("", "a", ""),
])
def test_one_id_or_none_at_all_is_a_refusal(monkeypatch, tmp_path, here, there, words):
    monkeypatch.setattr(controller, "ID_FILE", tmp_path / "machine-id")
    if here:
        (tmp_path / "machine-id").write_text(here)
    if words:
        with pytest.raises(RuntimeError, match=words):
            controller.refuse_controller(Module(there), "look")
    else:
        controller.refuse_controller(Module(there), "look")
