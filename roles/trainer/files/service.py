#!/usr/bin/python3
"""Stands between systemd and one trainer: says when steps flow, and passes on the request to stop.

service.py RUN_DIRECTORY REVISION_FILE FILE... -- COMMAND...

Ready with the first step that COMMAND (the trainer) reports, alive with each further one; exits as the trainer does.
What it knows of training is the run's events.jsonl. REVISION_FILE gets the digest of the FILEs that this start was made
from, so that the play can tell a trainer of an older configuration.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

POLL_SECONDS = 0.5
PROGRESS_KINDS = ("step", "validation", "checkpoint")


def main() -> int:
    split = sys.argv.index("--")
    run_directory, revision_file, *files = sys.argv[1:split]
    Path(revision_file).write_text(revision(files))
    notify = notifier()
    events = new_lines(Path(run_directory) / "events.jsonl")
    with subprocess.Popen(sys.argv[split + 1:]) as trainer:
        signal.signal(signal.SIGTERM, lambda *_: trainer.terminate())
        while (code := wait(trainer)) is None:
            for event in events():
                if event.get("kind") in PROGRESS_KINDS:
                    notify(f"READY=1\nWATCHDOG=1\nSTATUS=step {event.get('step', '?')}")
    if code == 0:
        notify("READY=1\nSTATUS=finished, or stopped as asked")  # a run that was finished before reports no step
    return code if code >= 0 else 128 - code


def revision(files: list[str]) -> str:
    """A digest of the files' bytes; one that is not there counts as empty."""
    digest = hashlib.sha256()
    for name in files:
        path = Path(name)
        digest.update(hashlib.sha256(path.read_bytes() if path.exists() else b"").digest())
    return digest.hexdigest()


def wait(trainer: subprocess.Popen) -> int | None:
    try:
        return trainer.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def new_lines(path: Path):
    """A function that returns the events written since its last call, the first time since now."""
    state = {"offset": path.stat().st_size if path.exists() else 0, "half": b""}

    def read() -> list[dict]:
        if not path.exists():
            return []
        with open(path, "rb") as file:
            file.seek(state["offset"])
            text = state["half"] + file.read()
            state["offset"] = file.tell()
        *lines, state["half"] = text.split(b"\n")
        return [event for event in map(parse, lines) if isinstance(event, dict)]

    return read


def parse(line: bytes):
    try:
        return json.loads(line)
    except ValueError:
        return None


def notifier():
    """A function that tells systemd something; without systemd it tells nobody."""
    from sdnotify import SystemdNotifier

    return SystemdNotifier().notify if "NOTIFY_SOCKET" in os.environ else (lambda _: None)


if __name__ == "__main__":
    sys.exit(main())
