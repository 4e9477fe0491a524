"""status.yml and stop.yml on this machine, for a run whose directory the test has written."""

import json
import subprocess
import sys
import time

import pytest
from playing import PROJECT, TOOLS, environment
from run_logs import checkpoint, sample, start, steps, write_run

from trainer.observe.standing import SILENCE_SECONDS, alerts, standing_of

STANDING = {
    "at": 10_000.0, "state": "running", "interrupted_by": None, "heard_at": 9_990.0, "notice_at": None, "mirror": None,
    "checkpoint": {"step": 100, "at": 9_900.0, "interval_seconds": 60.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"heard_at": 10_000.0 - SILENCE_SECONDS - 1}, "no word from the trainer for 15 minutes"),
        ({"heard_at": 10_000.0 - SILENCE_SECONDS - 1, "state": "finished"}, None),
        ({"heard_at": None}, None),
        ({"checkpoint": {"step": 1, "at": 9_819.0, "interval_seconds": 60.0}}, "the newest checkpoint is more than 3"),
        ({"checkpoint": {"step": 1, "at": 9_819.0, "interval_seconds": 600.0}}, None),
        ({"checkpoint": None}, None),
        ({"mirror": {"step": 1, "error": "s3: denied"}}, "checkpoints do not reach their second place: s3: denied"),
        ({"mirror": {"step": 1, "error": None}}, None),
        ({"notice_at": 9_950.0}, "AWS is about to take the machine away"),
        ({"notice_at": 9_000.0}, None),
        ({"state": "failed"}, "the run is failed: see its log"),
        ({"state": "interrupted", "interrupted_by": "it was killed"}, "the run is interrupted: it was killed"),
        ({"state": "stopped"}, None),
    ],
)
def test_what_somebody_should_look_at(changes, words):
    found = alerts(STANDING | changes)
    assert (found == []) if words is None else (len(found) == 1 and found[0].startswith(words))


def written(tmp_path):
    """A run that was killed at step 150, half a minute after its checkpoint."""
    now = time.time()
    events = [start(now - 300), *steps(now - 200, 10, 100), checkpoint(now - 60, 100), *steps(now - 50, 110, 150)]
    return write_run(tmp_path / "runs/r", events, [sample(now - 100 + second) for second in range(20)])


def test_how_a_run_stands(tmp_path):
    run = written(tmp_path)
    run.mirror_state.write_text(json.dumps({"step": 100, "error": None}))
    found = standing_of(run)
    assert (found["state"], found["steps"], found["steps_total"]) == ("interrupted", 150, 200)
    assert found["checkpoint"]["step"] == 100
    assert found["mirror"] == {"step": 100, "error": None}
    assert found["images_per_second"] == 40.0
    assert found["seconds_left"] is None


def play(name, tmp_path, *options):
    done = subprocess.run(
        [TOOLS / "ansible-playbook", PROJECT / f"playbooks/{name}.yml", "-i", PROJECT / "inventory/local", "-e",
         f"trainer_run_name=r trainer_runs_directory={tmp_path}/runs trainer_python={sys.executable}", *options],
        cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_status_on_one_screen_twice_without_a_change(tmp_path):
    written(tmp_path)
    for options in ((), ("--limit", "localhost", "--check")):
        code, words = play("status", tmp_path, *options)
        assert code == 0, words
        for part in ("where this machine", "run r: interrupted", "step 150 of 200", "checkpoint step 100, 1 min",
                     "alerts the run is interrupted"):  # fmt: skip
            assert part in words
        assert "changed=0" in words


def test_status_before_a_run(tmp_path):
    code, words = play("status", tmp_path)
    assert code == 0
    assert "run has not begun" in words


def test_stop_asks_the_trainer_and_says_how_to_go_on(tmp_path):
    """A stand-in that holds the lease as a trainer does, and ends when it is asked to."""
    run = written(tmp_path)
    with a_trainer(run) as process:
        code, words = play("stop", tmp_path)
        assert code == 0, words
        assert process.wait(10) == 0
    assert "changed=1" in words
    assert "goes on from the newest checkpoint" in words
    code, words = play("stop", tmp_path)
    assert (code, "changed=0" in words) == (0, True), words


class a_trainer:
    def __init__(self, run):
        self._run = run

    def __enter__(self):
        code = (
            "import signal, time, json, sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
            "from trainer import lease; from trainer.observe.events import event_writer; from trainer.run import Run\n"
            "run = Run(Path(sys.argv[1])); stop = []\n"
            "signal.signal(signal.SIGTERM, lambda *_: stop.append(1))\n"
            "with lease.hold(run):\n"
            "    print('on', flush=True)\n"
            "    while not stop: time.sleep(0.05)\n"
            "    event_writer(run.events)('stop', reason='signal', step=150)\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(self._run.directory), str(PROJECT)], stdout=subprocess.PIPE
        )
        assert self._process.stdout.readline() == b"on\n"
        return self._process

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
