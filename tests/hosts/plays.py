"""Playing a role on a test host: as a user's playbook does, over ssh."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from host import Host
from image import KEY

PROJECT = Path(__file__).resolve().parents[2]
KILLED = 9  # the exit code of a controller that `killed_after` killed
MOST_CHANGES = 40
_SSH = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


@dataclass
class Played:
    """What a play did: its exit code, all that it printed, the recap's counts, the tasks that changed something."""

    code: int
    output: str

    @property
    def counts(self) -> dict[str, int]:
        recap = self.output.rpartition("PLAY RECAP")[2]
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", recap)}

    @property
    def changed(self) -> list[str]:
        blocks = re.split(r"^(?:TASK|RUNNING HANDLER) \[", self.output, flags=re.MULTILINE)[1:]
        return [block.partition("]")[0] for block in blocks if re.search(r"^changed: ", block, flags=re.MULTILINE)]


def play(host: Host, roles: list[str], variables: dict, *options: str, tasks: str = "[]", limit_seconds: float = 600,
         **more: str) -> Played:  # fmt: skip
    """The roles with the variables on the host; `tasks` (YAML) come before them; `more`: environment variables."""
    started = start(host, roles, variables, *options, tasks=tasks, **more)
    try:
        output, _ = started.communicate(timeout=limit_seconds)
    finally:
        started.kill()
    return Played(started.returncode, output)


def start(host: Host, roles: list[str], variables: dict, *options: str, tasks: str = "[]", **more: str):
    """The same, in a process group of its own, as a subprocess.Popen whose standard output has all that it prints."""
    folder = host.directory / "play"
    folder.mkdir(exist_ok=True)
    connection = {
        "ansible_host": host.address, "ansible_user": "root", "ansible_ssh_private_key_file": str(KEY),
        "ansible_ssh_common_args": _SSH, "ansible_python_interpreter": "/usr/bin/python3",
    }
    (folder / "hosts.json").write_text(json.dumps({"trainers": {"hosts": {host.name: connection}}}))
    (folder / "variables.json").write_text(json.dumps(variables))
    (folder / "play.yml").write_text(
        "- hosts: trainers\n  gather_facts: false\n"
        f"  pre_tasks: {tasks}\n  roles: {json.dumps(roles)}\n"
    )
    return subprocess.Popen(
        [Path(sys.executable).parent / "ansible-playbook", "-i", str(folder / "hosts.json"), str(folder / "play.yml"),
         "-e", f"@{folder}/variables.json", *options],
        cwd=PROJECT, env=_environment() | more, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )


def killed_after(changes: int) -> dict[str, str]:
    """Environment of a play whose controller dies once that many tasks have changed something."""
    callbacks = Path(__file__).with_name("callbacks")
    return {"ANSIBLE_CALLBACK_PLUGINS": str(callbacks), "KILLED_AFTER_CHANGES": str(changes)}


def killed_until_done(configure: Callable[[dict[str, str]], Played]) -> list[str]:
    """The tasks that changed something, one a play; `configure` plays with the environment that it is given.

    Each play changes one thing more and is killed then, until there is nothing left to change.
    """
    changed = []
    for _ in range(MOST_CHANGES):
        done = configure(killed_after(1))
        changed += done.changed
        if done.code == 0:
            return changed
        assert (done.code, len(done.changed)) == (KILLED, 1), done.output
    raise AssertionError(f"no end after {changed}")


def _environment() -> dict[str, str]:
    own = {"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
    return os.environ | own | {"ANSIBLE_ROLES_PATH": str(PROJECT / "roles")}
