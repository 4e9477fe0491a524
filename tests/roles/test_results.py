"""roles/trainer, tasks_from: results: the model that is brought is that of the newest checkpoint."""

import json
import os
import subprocess
import sys

from playing import PROJECT, TOOLS, environment, program

HOSTS = {"none": None, "older": 100, "newer": 300}  # when the model was written; the checkpoint: 200


def run_directory(folder, name, model_at):
    directory = folder / name
    directory.mkdir(parents=True)
    for file, at in (("config.toml", 100), ("LATEST", 200), ("model.json", model_at)):
        if at:
            (directory / file).write_text("{}")
            os.utime(directory / file, (at, at))


def test_a_model_of_an_older_checkpoint_is_written_anew(tmp_path):
    trainer = program(tmp_path / "python", f'echo "$@" >>{tmp_path}/asked')
    for name, model_at in HOSTS.items():
        run_directory(tmp_path / "runs", name, model_at)
    task = {"ansible.builtin.import_role": {"name": "trainer", "tasks_from": "results"}}
    play = {"hosts": "all", "connection": "local", "gather_facts": False, "tasks": [task]}
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    settings = {
        "ansible_python_interpreter": sys.executable, "trainer_code_directory": str(PROJECT),
        "trainer_python": str(trainer), "trainer_runs_directory": str(tmp_path / "runs"), "trainer_service": False,
        "trainer_run_name": "{{ inventory_hostname }}", "trainer_results_with_model": True,
        "trainer_results_directory": f"{tmp_path}/here/{{{{ inventory_hostname }}}}",
    }  # fmt: skip
    done = subprocess.run(
        [TOOLS / "ansible-playbook", tmp_path / "play.yml", "-i", ",".join([*HOSTS, ""]), "-e", json.dumps(settings)],
        cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    exported = {line.rpartition("/")[2] for line in asked if " export " in line}
    assert exported == {"none", "older"}
