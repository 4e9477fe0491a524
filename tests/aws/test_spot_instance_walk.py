"""The rounds through the offers, with regions that the test pretends: role spot_instance's own files but for these."""

import json
import shutil
import subprocess

import pytest
import yaml
from launches import offer

from tests.roles.playing import ROLES, TOOLS, environment

SET = "ansible.builtin.set_fact"
# A region that has room at the try `room_at`, and tells so `late_seconds` later.
REGION = [
    {"name": "Count", SET: {"tries": "{{ tries | default(0) + 1 }}"}},
    {"name": "Take long", "ansible.builtin.pause": {"seconds": "{{ late_seconds }}"}, "when": "tries == room_at"},
    {"name": "Note it", SET: {"spot_instance_found": "{{ {'id': 'i-1'} if tries == room_at else {} }}"}},
]
NOTHING = [{"name": "Nothing", "ansible.builtin.meta": "noop"}]


@pytest.fixture
def walk(tmp_path):
    """`walk(room_at=3)`: what the play printed, in one line."""
    shutil.copytree(ROLES / "spot_instance", tmp_path / "roles/spot_instance")
    for name, tasks in {"region": REGION, "offers": NOTHING, "address": NOTHING}.items():
        (tmp_path / f"roles/spot_instance/tasks/{name}.yml").write_text(yaml.safe_dump(tasks, sort_keys=False))
    before = {
        "spot_instance_found": {}, "__spot_instance_tried": [], "__spot_instance_rounds": 0,
        "__spot_instance_deadline": "{{ now().timestamp() + spot_instance_timeout_seconds }}",
    }  # fmt: skip
    tasks = [
        {"name": "Begin", SET: before},
        {"name": "Walk", "ansible.builtin.import_role": {"name": "spot_instance", "tasks_from": "from_offers"}},
        {"name": "Tell", "ansible.builtin.debug": {"msg": "found at try {{ tries }}"}},
    ]
    playbook = tmp_path / "play.json"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))

    def run(**settings):
        settings = {
            "spot_instance_run": "r1", "spot_instance_offers": [offer()], "late_seconds": 0, "room_at": 0,
            "__spot_instance_round_seconds": 1, "__spot_instance_bundle_rounds": 2,
        } | settings  # fmt: skip
        done = subprocess.run(
            [TOOLS / "ansible-playbook", playbook, "-i", "localhost,", "-e", json.dumps(settings)], cwd=tmp_path,
            env=environment() | {"ANSIBLE_ROLES_PATH": str(tmp_path / "roles")}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        return " ".join((done.stdout + done.stderr).split())

    return run


def test_rounds_go_on_in_the_next_bundle_until_there_is_room_and_no_further(walk):
    told = walk(room_at=4, spot_instance_timeout_seconds=60)
    assert "found at try 4" in told, told


def test_no_other_file_includes_itself_and_a_bundle_is_far_from_what_ansible_nests():
    """ansible-core 2.19 ends with "Exceeded maximum object depth" at about 330 nested includes of one task file."""
    own = [path for path in ROLES.glob("*/tasks/*.yml") if f"include_tasks: {path.name}" in path.read_text()]
    assert [path.name for path in own] == ["walk.yml"]
    settings = yaml.safe_load((ROLES / "spot_instance/vars/main.yml").read_text())
    assert settings["__spot_instance_bundle_rounds"] <= 150


def test_the_time_limit_ends_the_rounds_of_all_bundles(walk):
    told = walk(spot_instance_timeout_seconds=12)
    assert "Failed to launch an instance for run r1 within 12 s" in told, told
    assert told.count("TASK [spot_instance : Wait for capacity]") >= 3


def test_what_a_later_round_has_launched_counts_however_late_that_is(walk):
    told = walk(room_at=2, late_seconds=12, spot_instance_timeout_seconds=14)
    assert "found at try 2" in told, told
