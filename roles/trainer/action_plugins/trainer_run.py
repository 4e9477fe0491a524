"""Starts the trainer detached on the target, or finds it running, and relays its log until it ends.

The trainer gets a process session of its own, so it outlives this play, a closed terminal and a lost connection.
Ctrl-C (it comes through the callback plugin of the same name) becomes one stop request; the task ends when the
trainer has: its checkpoint is on disk then.

A trainer that systemd runs is followed in its journal in the same way. It is a rented host's: Ctrl-C leaves it alone.
"""

import json
import shlex
import signal
import time
from collections import deque

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

POLL_SECONDS = 1.0
# Longer silences are filled, so that nobody thinks that it hangs: something is shown at least every 5 s.
SILENCE_SECONDS = 3.5
LAST_LINES = 20

LEFT = (
    "Left before the run has ended: the host trains on. The same command shows its progress again; on the host, "
    "journalctl -fu {unit} does, and systemctl stop {unit} ends it with a checkpoint."
)
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
# The same of a unit; one that waits for its next start runs. A code of 2 or 3 says that a signal ended it.
UNIT_STATE = r"""
value() { systemctl show --property="$1" --value UNIT; }
case $(value ActiveState) in
inactive | failed) case $(value ExecMainCode) in
    2 | 3) echo "ended $((128 + $(value ExecMainStatus)))" ;;
    *) echo "ended $(value ExecMainStatus)" ;;
    esac ;;
*) echo "running UNIT" ;;
esac
"""
CURSOR = "-- cursor: "
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


def journal_command(unit, cursor):
    """What the journal of a unit has after the cursor, or its last lines, and where that ends."""
    since = f"--after-cursor={shlex.quote(cursor)}" if cursor else f"--lines={LAST_LINES}"
    return f"journalctl --quiet --unit={unit} --output=cat --show-cursor {since}"


def journal_lines(text, cursor):
    """The lines of that and the cursor of their end, which is the one before when there are none."""
    lines = text.splitlines()
    found = [line.removeprefix(CURSOR) for line in lines if line.startswith(CURSOR)]
    return [line for line in lines if not line.startswith(CURSOR)], found[-1] if found else cursor


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
    return "\n".join([f"Failed to train: {why}. The last lines of its log:", *last_lines])


class ActionModule(ActionBase):
    """Arguments: directory (of the run); command (a list, how to start the trainer there) or unit (which runs it)."""

    _VALID_ARGS = frozenset(("directory", "command", "unit"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        self._directory, self._unit = self._task.args["directory"], self._task.args.get("unit")
        if self._task.check_mode:
            return result | {"changed": not self._unit and not self._report().get("finished", False)}
        self._stop_asked = self._stop_sent = False
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        events_before = self._size("events.jsonl")
        self._last_lines = deque(maxlen=LAST_LINES)
        state = self._follow(None if self._unit else self._start())
        changed = not self._unit and self._size("events.jsonl") != events_before
        return result | {"changed": changed} | self._outcome(state)

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

    def _follow(self, place):
        """Relays the log from there on until the trainer has ended, or is left alone; returns its last state."""
        line_at = shown_at = time.monotonic()
        state = ["running"]
        while state[0] == "running" and not (self._unit and self._stop_asked):
            time.sleep(POLL_SECONDS)
            state, lines, place = self._look(place)
            self._last_lines.extend(lines)
            now = time.monotonic()
            line_at = now if lines else line_at
            shown = lines or list(filter(None, [filler(now - line_at, now - shown_at)]))
            for line in shown:
                display.display(f"  {line}")
                shown_at = now
            self._stop_once(state)
        return state

    def _look(self, place):
        """State, new lines, and where they end: a cursor of the journal, or a byte of the log."""
        if self._unit:
            text = self._sh(UNIT_STATE.replace("UNIT", self._unit) + journal_command(self._unit, place))
            head, _, log = text.partition("\n")
            return head.split(), *journal_lines(log, place)
        head, _, log = self._sh(f"{STATE}\ntail -c +{place + 1} trainer.log 2>/dev/null || true").partition("\n")
        lines, size = whole_lines(log)
        return head.split(), lines, place + size

    def _stop_once(self, state):
        """One request only: a second signal would end the trainer before its checkpoint is written."""
        if self._unit or not self._stop_asked or self._stop_sent or len(state) != 2 or state[0] != "running":
            return
        self._stop_sent = "sent" in self._sh(f"kill -s TERM -- {state[1]} && echo sent || true")
        if self._stop_sent:
            display.display("  stopping: the trainer finishes its step and writes a checkpoint")

    def _outcome(self, state):
        if state[0] == "running":
            return {"failed": True, "msg": LEFT.format(unit=self._unit)}
        report = self._report()
        message = failure(state, report, self._last_lines)
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
