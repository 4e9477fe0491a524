"""Where things are, and how a test calls the project's playbooks: as a user does."""

import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROLES = PROJECT / "roles"
TOOLS = Path(sys.executable).parent


def play_command(folder, *arguments):
    """train.yml with runs and packed data in a folder of the test's own; nothing is tuned unless asked for."""
    places = ["-e", f"trainer_runs_directory={folder}/run", "-e", f"trainer_data_directory={folder}/data"]
    return [TOOLS / "ansible-playbook", PROJECT / "train.yml", *places, "-e", "trainer_tune=none", *arguments]


def environment(**more):
    own = {"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
    return os.environ | own | more


def run_play(folder, *arguments):
    return subprocess.run(
        play_command(folder, *arguments), cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=300, check=False,
    )


def call(module, role, arguments=None, check=False, **more):
    """The result of a module or an action plugin of the role on this machine."""
    command = [
        TOOLS / "ansible", "localhost", "-c", "local", "-m", module, "-a", json.dumps(arguments) if arguments else "",
        "-e", f"ansible_python_interpreter={json.dumps(sys.executable)}", *(["--check"] if check else []),
    ]
    # Its own, and those that roles share (ansible.cfg).
    utilities = [str(ROLES / owner / "module_utils") for owner in (role, "data_volume", "spot_market")]
    places = {
        "ANSIBLE_LIBRARY": str(ROLES / role / "library"), "ANSIBLE_MODULE_UTILS": ":".join(utilities),
        "ANSIBLE_ACTION_PLUGINS": str(ROLES / role / "action_plugins"),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline",
    }
    done = subprocess.run(command, env=environment(**places, **more), capture_output=True, text=True, check=False)
    return json.loads(done.stdout[done.stdout.index("{"):])


def program(path, script):
    """A program of the test's own in place of one of the system's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
