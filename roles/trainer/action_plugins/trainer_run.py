"""Starts the trainer detached on the target, or finds it running, and relays its log until it ends.

The trainer gets a process session of its own, so it outlives this play, a closed terminal and a lost connection.
Ctrl-C becomes one stop request; the task ends when the trainer has: its checkpoint is on disk then.
"""

import json
import shlex
import signal
import time

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

POLL_SECONDS = 1.0
# The trainer's own lines come every 4 s or so; longer silences are filled, so that nobody thinks that it hangs.
SILENCE_SECONDS = 4.0
LOG = "trainer.log"
LAST_LINES = 20

EXIT_CODES = {
    66: "the data is missing or damaged",
    69: "there is no usable GPU",
    70: "a bug, or a loss that is not finite",
    74: "writing to the disk failed",
    78: "the configuration asks for something impossible",
}

# Prints "running PID", "ended CODE" or "gone". The trainer holds a lock on lease.json while it lives.
STATE = """
if [ -e lease.json ] && ! flock -n -s lease.json true; then
    echo "running $(sed 's/.*"pid": *\\([0-9]*\\).*/\\1/' lease.json)"
elif [ -e trainer.exit ]; then echo "ended $(cat trainer.exit)"
elif [ -e trainer.pid ] && kill -0 "$(cat trainer.pid)" 2>/dev/null; then echo "running $(cat trainer.pid)"
else echo gone
fi
"""

# Stopping before the lease exists must reach the trainer, not the shell that waits for its exit code.
START = """
rm -f trainer.exit trainer.pid
setsid sh -c '{command} & echo $! >trainer.pid; wait $!; echo $? >trainer.exit' </dev/null >>{log} 2>&1 &
"""


class ActionModule(ActionBase):
    """Arguments: directory (of the run) and command (a list, how to start the trainer there)."""

    _VALID_ARGS = frozenset(("directory", "command"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        self._directory = self._task.args["directory"]
        if self._task.check_mode:
            return result | {"changed": not self._report().get("finished", False)}
        self._stop_requests = 0
        self._take_signals()
        before = self._size("events.jsonl")
        offset = self._size(LOG)
        self._start()
        code = self._follow(offset)
        return result | self._outcome(code, before)

    def _take_signals(self):
        """Ctrl-C reaches this process through the callback plugin of the same name."""

        def on_signal(_number, _frame):
            self._stop_requests += 1

        signal.signal(signal.SIGINT, on_signal)
        signal.signal(signal.SIGTERM, on_signal)

    def _start(self):
        state = self._sh(STATE).split()
        if state[0] == "running":
            display.display(f"  already training (process {state[1]}): its progress follows")
            return
        command = shlex.join(self._task.args["command"]).replace("'", "'\\''")
        self._sh(START.format(command=command, log=LOG))
        display.display(f"  starting; all that the trainer says is kept in {self._directory}/{LOG}")
