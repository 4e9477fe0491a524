"""Playbooks as a user calls them, with what they do told meanwhile; and one whose controller dies in the middle."""

import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.fakes.aws.world import world
from tests.rehearsal.playing import PROJECT, credentials, environment
from tests.rehearsal.story.timeline import Timeline

INVENTORY = PROJECT / "inventory/rehearsal"
TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(?:(\w+) : )?(.*)\]")
LOOK_SECONDS = 0.05


@dataclass
class Played:
    code: int
    output: str
    seconds: float
    roles: dict[str, float]  # how many seconds each took

    @property
    def words(self) -> str:
        """All that it printed in one line, however it was broken."""
        return " ".join(self.output.split())

    @property
    def told_roles(self) -> str:
        return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.roles.items() if seconds >= 1)


class Plays:
    """Each leaves what it printed in a file of `folder`; the run's own files lie in folder/run."""

    def __init__(self, folder: Path, endpoint: str, timeline: Timeline):
        self._folder, self._timeline = folder, timeline
        self._environment = environment(**credentials(endpoint), COLUMNS="120")
        self.done: list[dict] = []

    def play(self, name: str, kill_when_held: bool = False, **settings) -> Played:
        """kill_when_held: no process of it gets to do anything once the double holds an answer back."""
        words = f"{name}.yml" + "".join(f" -e {key}={value}" for key, value in settings.items())
        log = self._folder / f"play-{len(self.done) + 1}-{name}.log"
        started = time.monotonic()
        with self._timeline.doing(words), self._start(name, settings) as process:
            if kill_when_held:
                threading.Thread(target=_kill_when_held, args=(process,), daemon=True).start()
            roles = self._follow(process, words, log)
        played = Played(process.returncode, log.read_text(), time.monotonic() - started, roles)
        self.done.append({"play": words, "code": played.code, "seconds": round(played.seconds, 1), "roles": roles})
        return played

    def _start(self, name: str, settings: dict) -> psutil.Popen:
        playbook = PROJECT / ("train.yml" if name == "train" else f"playbooks/{name}.yml")
        own = json.dumps(settings | {"checkout": str(self._folder)})
        program = Path(sys.executable).with_name("ansible-playbook")
        return psutil.Popen(
            [str(program), str(playbook), "-i", str(INVENTORY), "-e", own], cwd=self._folder, env=self._environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def _follow(self, process: psutil.Popen, words: str, log: Path) -> dict[str, float]:
        """How many seconds each role took; all that the play prints goes into the log."""
        roles, role, since = {}, "play", time.monotonic()
        with log.open("w", buffering=1) as file:
            for line in process.stdout:
                file.write(line)
                if found := TASK.match(line):
                    now = time.monotonic()
                    roles[role] = roles.get(role, 0.0) + now - since
                    role, since = found[1] or "play", now
                    self._timeline.now(f"{words}: {role}: {found[2]}")
        process.wait()
        roles[role] = roles.get(role, 0.0) + time.monotonic() - since
        return {name: round(seconds, 1) for name, seconds in roles.items()}


def _kill_when_held(process: psutil.Popen) -> None:
    while process.poll() is None:
        if any(call["fault"] == "held" for call in world().calls):
            for one in [process, *process.children(recursive=True)]:
                one.kill()
            return
        time.sleep(LOOK_SECONDS)
