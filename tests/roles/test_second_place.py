"""How the role trainer talks to a run's second place on a host of systemd's: with the secrets of the host."""

import json
import subprocess
import sys

import pytest
from playing import PROJECT, TOOLS, environment, program

SECRETS = "--property=EnvironmentFile=-/etc/trainer/secrets"
SETTINGS = {
    "trainer_service": True, "trainer_run_name": "r", "trainer_checkpoint_mirror": "s3://bucket/runs",
    "trainer_code_directory": str(PROJECT), "trainer_python": sys.executable, "trainer_dataset": "photos",
    "trainer_tune": "none",
}  # fmt: skip


@pytest.fixture
def systemd_run(tmp_path):
    """Stands in systemd-run's place; the arguments of its only call."""
    program(tmp_path / "bin/systemd-run", f'printf "%s\\n" "$@" >>{tmp_path}/arguments; echo sent')
    return lambda: (tmp_path / "arguments").read_text().splitlines()


def play(folder):
    task = {"name": "Role", "ansible.builtin.import_role": {"name": "trainer", "tasks_from": "stop"}}
    here = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    (folder / "play.yml").write_text(json.dumps([here | {"tasks": [task]}]))
    settings = SETTINGS | {"trainer_runs_directory": str(folder), "trainer_data_directory": str(folder / "data")}
    path = environment()["PATH"]
    return subprocess.run(
        [TOOLS / "ansible-playbook", folder / "play.yml", "-i", "localhost,", "-e", json.dumps(settings), "-e",
         f"ansible_python_interpreter={sys.executable}"],
        cwd=folder, env=environment(PATH=f"{folder}/bin:{path}"), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_stop_asks_it_with_the_host_s_secrets_and_as_the_trainer(systemd_run, tmp_path):
    (tmp_path / "r").mkdir()
    for name in ("config.toml", "mirror.json"):
        (tmp_path / "r" / name).touch()
    done = play(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = systemd_run()
    assert {SECRETS, "--property=User=trainer", "--wait"} <= set(asked)
    assert asked[-3:] == ["mirror", "--run", str(tmp_path / "r")]
