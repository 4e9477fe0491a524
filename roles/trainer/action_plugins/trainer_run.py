"""Starts the trainer detached on the target, or finds it running, and relays its log until it ends.

The trainer gets a process session of its own, so it outlives this play, a closed terminal and a lost connection.
Ctrl-C (it comes through the callback plugin of the same name) becomes one stop request; the task ends when the
trainer has: its checkpoint is on disk then.
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
# Longer silences are filled, so that nobody thinks that it hangs: something is shown at least every 5 s.
SILENCE_SECONDS = 3.5
LAST_LINES = 20

EXIT_CODES = {
    66: "the data is missing or damaged",
    69: "there is no usable GPU",
    70: "a bug, or a loss that is not finite",
    74: "writing to the disk failed",
    78: "the configuration asks for something impossible",
    143: "it was told to stop before it could write a checkpoint",
}

# Prints "running PID", "ended CODE" or "gone". The trainer holds a lock on lease.json while it lives; until it has
# it, the shell that started it stands for it: that one holds trainer.lock, and -PID is its process group. Only locks
# tell who lives: a process id may be another's by now.
STATE = r"""
is_held() { [ -e "$1" ] && { flock -n -s "$1" true; [ $? = 1 ]; }; }
if is_held lease.json; then echo "running $(sed 's/.*"pid": *\([0-9]*\).*/\1/' lease.json)"
elif is_held trainer.lock; then echo "running -$(cat trainer.pid)"
elif [ -s trainer.exit ]; then echo "ended $(cat trainer.exit)"
else echo gone
fi 2>/dev/null
"""
# A trainer that somebody started by hand leaves no exit code; the one that is there is of a start before.
FORGET_EXIT = "flock -n -s trainer.lock rm -f trainer.exit || true"


def start_command(command):
    """Shell text that starts `command` (a list) in a session of its own and keeps its exit code in trainer.exit.

    Does nothing when another start was faster; the wait is for those who only ask for the state. The trap lets the
    shell live until it has written the code, when a signal goes to the whole process group.
    """
    inner = f"trap : TERM; {shlex.join(command)}; echo $? >trainer.exit"
    return (
        "(flock -w 2 9 || exit 0; rm -f trainer.exit trainer.pid; "
        f"setsid sh -c {shlex.quote(inner)} </dev/null >>trainer.log 2>&1 & echo $! >trainer.pid) 9>>trainer.lock"
    )


def whole_lines(text):
    """The complete lines of a text and the number of bytes they take; the half line at its end is not counted."""
    end = text.rfind("\n") + 1
    return text[:end].splitlines(), len(text[:end].encode(errors="surrogateescape"))


def filler(line_seconds, shown_seconds):
    """What to show in a silence: its length. None while something was shown (a line, or this) a moment ago."""
    return f"... ({line_seconds:.0f} s since the last line)" if shown_seconds > SILENCE_SECONDS else None


def failure(state, report, last_lines):
    """Why a run that has ended is no success, in words; None when it is finished."""
    if state in (["ended", "0"], ["gone"]) and report.get("finished"):
        return None
    if state == ["ended", "0"]:
        return f"Stopped at step {report.get('steps', 0)}; its checkpoint is on disk, the same command continues."
    if state == ["gone"]:
        why = "it ended without an exit code before the run was finished (somebody stopped it, or the machine)"
    else:
        code = int(state[1])
        why = f"exit code {code}: {EXIT_CODES.get(code, 'it was killed' if code > 128 else 'unknown')}"
    return "\n".join([f"Failed to train: {why}. The last lines of trainer.log:", *last_lines])


class ActionModule(ActionBase):
    """Arguments: directory (of the run) and command (a list, how to start the trainer there)."""

    _VALID_ARGS = frozenset(("directory", "command"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        self._directory = self._task.args["directory"]
        if self._task.check_mode:
            return result | {"changed": not self._report().get("finished", False)}
        self._stop_asked = self._stop_sent = False
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        events_before = self._size("events.jsonl")
        log_before = self._start()
        state = self._follow(log_before)
        changed = self._size("events.jsonl") != events_before
        return result | {"changed": changed} | self._outcome(state, log_before)

    def _on_signal(self, _number, _frame):
        self._stop_asked = True

    def _start(self):
        """Returns the size of the log before anything that is to be shown."""
        offset = self._size("trainer.log")
        state = self._sh(STATE).split()
        if state[0] == "running":
            self._sh(FORGET_EXIT)
            display.display(f"  already training (process {state[-1].lstrip('-')}); its progress follows")
        else:
            self._sh(start_command(self._task.args["command"]))
            display.display(f"  starting; what the trainer says is kept in {self._directory}/trainer.log")
        return offset

    def _follow(self, offset):
        """Relays the log from that byte on until the trainer has ended; returns its last state."""
        line_at = shown_at = time.monotonic()
        state = ["running"]
        while state[0] == "running":
            time.sleep(POLL_SECONDS)
            head, _, log = self._sh(f"{STATE}\ntail -c +{offset + 1} trainer.log 2>/dev/null || true").partition("\n")
            state = head.split()
            lines, size = whole_lines(log)
            offset += size
            now = time.monotonic()
            line_at = now if lines else line_at
            shown = lines or list(filter(None, [filler(now - line_at, now - shown_at)]))
            for line in shown:
                display.display(f"  {line}")
                shown_at = now
            self._stop_once(state)
        return state

    def _stop_once(self, state):
        """One request only: a second signal would end the trainer before its checkpoint is written."""
        if not self._stop_asked or self._stop_sent or len(state) != 2 or state[0] != "running":
            return
        self._stop_sent = "sent" in self._sh(f"kill -s TERM -- {state[1]} && echo sent || true")
        if self._stop_sent:
            display.display("  stopping: the trainer finishes its step and writes a checkpoint")

    def _outcome(self, state, log_before):
        report = self._report()
        last_lines = self._sh(f"tail -c +{log_before + 1} trainer.log 2>/dev/null | tail -n {LAST_LINES}").splitlines()
        message = failure(state, report, last_lines)
        return {"failed": True, "msg": message} if message else {"report": report}

    def _report(self):
        path = shlex.quote(f"{self._directory}/report.json")
        try:
            return json.loads(self._low_level_execute_command(f"cat {path} 2>/dev/null")["stdout"])
        except ValueError:
            return {}

    def _size(self, name):
        return int(self._sh(f"cat {name} 2>/dev/null | wc -c"))

    def _sh(self, command):
        """Output of a command in the run's directory."""
        done = self._low_level_execute_command(f"cd {shlex.quote(self._directory)} && {{ {command}\n}}")
        if done["rc"] != 0:
            words = done["stderr"].strip() or done["stdout"].strip()
            raise AnsibleActionFail(f"Failed to look into the run {self._directory} (exit code {done['rc']}): {words}")
        return done["stdout"]
