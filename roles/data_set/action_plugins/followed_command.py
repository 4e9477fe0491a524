"""Runs a command for hours on the target, detached, and relays what it says: a lost connection loses nothing.

The same task again finds the command running and follows it, or starts it anew when it has ended.
"""

import shlex
import time

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

POLL_SECONDS = 1.0
LAST_LINES = 30


def state_command(name):
    """Shell text that prints "running", "ended CODE" or "gone". The command holds the lock while it lives."""
    return (
        f"if [ -e {name}.lock ] && ! flock -n -s {name}.lock true; then echo running; "
        f'elif [ -s {name}.exit ]; then echo "ended $(cat {name}.exit)"; else echo gone; fi'
    )


def start_command(name, command):
    """Shell text that starts the command in a session of its own, unless it runs; its end is in NAME.exit."""
    inner = f"{shlex.join(command)} >{name}.out 2>{name}.log; echo $? >{name}.exit"
    return (
        f"(flock -n 9 || exit 0; rm -f {name}.exit; : >{name}.log; "
        f"setsid sh -c {shlex.quote(inner)} </dev/null >/dev/null 2>&1 &) 9>>{name}.lock"
    )


def whole_lines(text):
    """The complete lines and the number of bytes they take; a half line at the end is not counted."""
    end = text.rfind("\n") + 1
    return text[:end].splitlines(), len(text[:end].encode(errors="surrogateescape"))


class ActionModule(ActionBase):
    """Arguments: command (a list), directory (for its files, made if need be), name (of these files)."""

    _VALID_ARGS = frozenset(("command", "directory", "name"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        if self._task.check_mode:
            return result | {"skipped": True, "msg": "not run in check mode"}
        self._name = shlex.quote(self._task.args["name"])
        self._sh(start_command(self._name, self._task.args["command"]), make=True)
        state = self._follow()
        if state[0] == "gone":
            raise AnsibleActionFail(f"{self._task.args['name']} ended without an exit code: the machine was stopped?")
        stdout, stderr = self._sh(f"cat {self._name}.out"), self._sh(f"tail -n {LAST_LINES} {self._name}.log")
        told = {"rc": int(state[1]), "stdout": stdout, "stderr": stderr, "stderr_lines": stderr.splitlines()}
        return result | told | ({"msg": f"exit code {state[1]}: {stderr.strip()}"} if state[1] != "0" else {})

    def _follow(self):
        """Relays what the command says until it has ended; returns its last state."""
        offset, state = 0, ["running"]
        while state[0] == "running":
            time.sleep(POLL_SECONDS)
            head, _, log = self._sh(
                f"{state_command(self._name)}; tail -c +{offset + 1} {self._name}.log"
            ).partition("\n")
            state = head.split()
            lines, size = whole_lines(log)
            offset += size
            for line in lines:
                display.display(f"  {line}")
        return state

    def _sh(self, command, make=False):
        directory = shlex.quote(self._task.args["directory"])
        first = f"mkdir -p {directory} && " if make else ""
        done = self._low_level_execute_command(f"{first}cd {directory} && {{ {command}\n}}")
        if done["rc"] != 0:
            words = done["stderr"].strip() or done["stdout"].strip()
            raise AnsibleActionFail(f"Failed to run {self._task.args['name']} (exit code {done['rc']}): {words}")
        return done["stdout"]
