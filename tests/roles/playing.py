"""Where things are, and how a test calls the project's playbooks: as a user does."""

import os
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROLES = PROJECT / "roles"
TOOLS = Path(sys.executable).parent


def play_command(folder, *arguments):
    """train.yml with runs and packed data in a folder of the test's own."""
    places = ["-e", f"trainer_runs_directory={folder}/run", "-e", f"trainer_data_directory={folder}/data"]
    return [TOOLS / "ansible-playbook", PROJECT / "train.yml", *places, *arguments]


def environment(**more):
    own = {"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
    return os.environ | own | more
