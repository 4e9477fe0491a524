"""`drill`: losing the machine, rehearsed on a copy of a run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import training
from training import until

from trainer import lease
from trainer.commands.drill import drill
from trainer.errors import ConfigError, TrainerError
from trainer.run import Run
from trainer.spot import rehearsal


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(rehearsal, "CHECKPOINT_SECONDS", 0.2)
    monkeypatch.setattr(rehearsal, "KILL_WITHIN_SECONDS", 0.5)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def make_run(recipe: dict, **changes) -> Run:
    return training.write_config(recipe, **({"epochs": 1000} | changes))


def contents(folder: Path) -> dict:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.glob("**/*")}


def test_the_same_weights_after_a_notice_and_a_kill_and_the_run_as_it_was(tiny_recipe, tmp_path, capsys):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    recipe = tiny_recipe | {"data_val": None, "epochs": 1000, "model_prefix": str(tmp_path / "model" / "m")}
    run = make_run(recipe, checkpoint_mirror=f"file://{mirror}")
    training.train(recipe, until_step=12)
    before = contents(tmp_path)
    capsys.readouterr()
    drill(run=str(run.directory), notice=True, kill=1, steps=3, as_json=True)
    assert contents(tmp_path) == before
    result = json.loads(capsys.readouterr().out)
    assert (result["same"], result["different"], result["from"]) == (True, [], "00000012-0")
    notice, kill = result["interruptions"]
    assert (notice["kind"], kill["kind"]) == ("notice", "kill")
    assert 12 < notice["step"] == notice["resumed_step"] < kill["step"]
    assert notice["images_twice"] == 0
    assert kill["images_twice"] == (kill["step"] - kill["resumed_step"]) * 16
    assert 0 < notice["notice_to_durable_seconds"] < 30
    assert 0 < kill["seconds_to_next_step"] <= kill["seconds_lost"]
    assert result["to_step"] == kill["step"] + 3


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "--notice or --kill must be given, got neither"), ({"run": "nowhere", "kill": 1}, "--run must be the name")],
)
def test_what_cannot_be_rehearsed_is_refused(tiny_recipe, options, message):
    run = make_run(tiny_recipe)
    with pytest.raises(ConfigError, match=message):
        drill(**{"run": str(run.directory), "notice": False, "kill": 0, "steps": 3, "as_json": False, **options})


def test_a_run_in_training_is_left_alone(tiny_recipe):
    run = make_run(tiny_recipe)
    with lease.hold(run), pytest.raises(ConfigError, match="--run must not be in training during a drill, got tiny"):
        drill(run=str(run.directory), notice=False, kill=1, steps=3, as_json=False)


def test_what_an_interruption_cost():
    def at(t, kind, **fields):
        return {"t": t, "kind": kind, **fields}

    log = [
        at(0, "start", resumed_step=0), *(at(step, "step", step=step) for step in range(1, 8)),
        at(10, "start", resumed_step=5), *(at(5 + step, "step", step=step) for step in range(6, 10)),
        at(15, "stop", reason="notice"), at(20, "start", resumed_step=9), at(21, "step", step=10),
    ]  # fmt: skip
    kill = rehearsal.outcome({"kind": "kill", "t": 7.5, "step": 7}, log, batch_size=4)
    assert (kill["resumed_step"], kill["images_twice"]) == (5, 8)
    assert (kill["seconds_to_next_step"], kill["seconds_lost"]) == (3.5, 5.5)
    notice = rehearsal.outcome({"kind": "notice", "t": 12, "step": 9}, log, batch_size=4)
    assert (notice["resumed_step"], notice["images_twice"]) == (9, 0)
    assert (notice["seconds_to_next_step"], notice["seconds_lost"]) == (6, 6)


def test_a_copy_that_made_no_step_after_its_interruption_was_too_short():
    """The interruption came in the run's last step."""
    log = [{"t": 1, "kind": "step", "step": 9}, {"t": 3, "kind": "stop"}, {"t": 4, "kind": "start", "resumed_step": 9}]
    for kind in ("notice", "kill"):
        with pytest.raises(rehearsal.TooShortError):
            rehearsal.outcome({"kind": kind, "t": 2, "step": 9}, log, batch_size=4)


@pytest.mark.slow
def test_other_weights_are_told_with_their_reason(tiny_recipe, capsys):
    """MXNet's own iterator draws the rest of an epoch anew; with several threads no two trainings see the same."""
    run = make_run(tiny_recipe, data_val=None, input_engine="mxnet", augmentation="imagenet", batch_size=7)
    with pytest.raises(TrainerError) as caught:
        drill(run=str(run.directory), notice=True, kill=0, steps=3, as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert (result["same"], "weights.params" in result["different"]) == (False, True)
    told = "came to other weights" if result["repeatable"] else "two trainings without interruption differ as well"
    assert told in str(caught.value)
    assert not run.directory.with_name(".tiny.drill").exists()


@pytest.mark.slow
def test_a_finished_run_is_rehearsed_from_the_beginning(tiny_recipe, capsys):
    run = make_run(tiny_recipe, epochs=30)
    training.train(tiny_recipe, epochs=30)
    drill(run=str(run.directory), notice=False, kill=1, steps=1, as_json=True)
    assert json.loads(capsys.readouterr().out)["from"] is None


@pytest.mark.slow
def test_a_training_that_is_over_at_once_is_too_short(tiny_recipe):
    run = make_run(tiny_recipe, epochs=1)
    with pytest.raises(ConfigError, match="--run must train for at least some 10 s more"):
        drill(run=str(run.directory), notice=True, kill=0, steps=1, as_json=False)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_drill_that_is_ended_leaves_no_trainer(tiny_recipe, number):
    run = make_run(tiny_recipe)
    folder = run.directory.with_name(".tiny.drill")
    copy = Run(folder / "interrupted")
    command = [sys.executable, "-m", "trainer", "drill", "--run", run.directory, "--kill", "1"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        until(lambda: rehearsal.last_step(copy))
        os.kill(process.pid, number)
        assert process.wait(timeout=30)
    until(lambda: not copy.directory.exists() or lease.holder(copy) is None)
    assert folder.exists() == (number == signal.SIGKILL)
    if number == signal.SIGKILL:
        drill(run=str(run.directory), notice=False, kill=1, steps=1, as_json=False)
        assert not folder.exists()
