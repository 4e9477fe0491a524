"""When a rented host only costs money, and whether it can go."""

import json
import time

import pytest
from typer.testing import CliRunner

from trainer.commands.app import app
from trainer.observe.idle import UNMIRRORED_SECONDS, Standing, is_due, is_safe, standing, words
from trainer.run import Run

FINISHED, IDLE = 600.0, 3600.0
WATCHED = 10_000.0


@pytest.mark.parametrize(("finished", "quiet_seconds", "due"), [
    (True, 599, False), (True, 600, True), (False, 600, False), (False, 3599, False), (False, 3600, True),
])
def test_it_is_due_so_long_after_the_end_or_the_last_step(finished, quiet_seconds, due):
    for mirrored in (True, False):
        assert is_due(Standing(finished, quiet_seconds, mirrored), FINISHED, IDLE) is due


@pytest.mark.parametrize(("mirrored", "quiet_seconds", "safe"), [
    (True, 0, True), (False, UNMIRRORED_SECONDS - 1, False), (False, UNMIRRORED_SECONDS, True),
])
def test_what_is_not_in_the_second_place_holds_it_for_a_day(mirrored, quiet_seconds, safe):
    assert is_safe(Standing(True, quiet_seconds, mirrored)) is safe


def test_words():
    assert words(Standing(True, 60, True), FINISHED, IDLE) == "finished for 1 min 0 s of 10 min 0 s"
    assert words(Standing(False, 60, False), FINISHED, IDLE).endswith("; the second place lacks its newest checkpoint")


@pytest.fixture
def run(tmp_path):
    """A run with a second place."""
    run = Run(tmp_path / "r")
    run.checkpoints.mkdir(parents=True)
    run.config.write_text('checkpoint_mirror = "file:///elsewhere"\n')
    return run


def log(run, *events):
    """Each event: seconds ago, kind, fields."""
    lines = [json.dumps({"t": time.time() - ago, "kind": kind, **fields}) for ago, kind, fields in events]
    run.events.write_text("".join(line + "\n" for line in lines))


@pytest.mark.parametrize(("events", "finished", "quiet_seconds"), [
    ([], False, WATCHED),
    ([(50, "start", {})], False, WATCHED),
    ([(90, "step", {"step": 1}), (70, "checkpoint", {"step": 1}), (50, "bad_record", {})], False, 90),
    ([(90, "step", {"step": 1}), (50, "start", {}), (40, "stop", {"reason": "error"})], False, 90),
    ([(90, "step", {"step": 1}), (50, "validation", {"step": 1})], False, 50),
    ([(90, "step", {"step": 1}), (40, "stop", {"reason": "finished"})], True, 40),
    ([(90, "step", {"step": 1}), (40, "stop", {"reason": "signal"})], False, 90),
    ([(2 * WATCHED, "step", {"step": 1}), (2 * WATCHED, "stop", {"reason": "finished"})], True, WATCHED),
])
def test_only_steps_and_the_end_of_a_finished_run_are_signs_of_life(run, events, finished, quiet_seconds):
    log(run, *events)
    now = standing(run, WATCHED)
    assert now.finished is finished
    assert now.quiet_seconds == pytest.approx(quiet_seconds, abs=5)


@pytest.mark.parametrize(("checkpoint", "state", "mirrored"), [
    (None, None, True),
    ("00000010-000", None, False),
    ("00000010-000", '{"checkpoint": "00000010-000"}', True),
    ("00000010-000", '{"checkpoint": "00000005-000"}', False),
    ("00000010-000", '{"checkpoint": null}', False),
    ("00000010-000", "half", False),
])
def test_the_second_place_must_have_the_newest_checkpoint(run, checkpoint, state, mirrored):
    if checkpoint:
        for name in ("00000005-000", checkpoint):
            (run.checkpoints / name).mkdir()
    if state:
        run.mirror_state.write_text(state)
    assert standing(run, WATCHED).mirrored is mirrored


def test_without_a_second_place_the_host_is_all_that_has_its_checkpoints(run):
    (run.checkpoints / "00000010-000").mkdir()
    run.config.write_text("epochs = 1\n")
    assert not standing(run, WATCHED).mirrored


def test_a_run_that_never_began_has_been_quiet_since_it_is_watched(tmp_path):
    assert standing(Run(tmp_path / "none"), WATCHED) == Standing(False, WATCHED, True)


def systemctl(folder, monkeypatch, script):
    """A program of that name in place of the system's."""
    path = folder / "bin" / "systemctl"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")


@pytest.mark.parametrize(("watched_seconds", "code"), [(30, 1), (90, 0), (None, 1)])
def test_the_exit_code_tells(tmp_path, monkeypatch, watched_seconds, code):
    began = 0 if watched_seconds is None else time.monotonic() - watched_seconds
    systemctl(tmp_path, monkeypatch, f"echo {round(began * 1e6)}")
    done = CliRunner().invoke(app, ["idle", "--run", str(tmp_path), "--idle-minutes", "1"])
    assert done.exit_code == code
    assert done.stdout.startswith("no step for ")


def test_a_run_that_is_not_mirrored_keeps_the_host(run, monkeypatch):
    systemctl(run.directory, monkeypatch, "echo 1")
    (run.checkpoints / "00000010-000").mkdir()
    options = ["idle", "--run", str(run.directory), "--idle-minutes", "0"]
    assert [CliRunner().invoke(app, [*options, *more]).exit_code for more in ([], ["--mirrored"])] == [0, 1]


def test_without_systemd_it_says_so(tmp_path, monkeypatch):
    systemctl(tmp_path, monkeypatch, "echo no bus >&2; exit 1")
    done = CliRunner().invoke(app, ["idle", "--run", str(tmp_path)])
    assert "no bus" in str(done.exception)
