"""When training saves, and what it does meanwhile."""

import threading
from pathlib import Path
from statistics import mean

import pytest
from training import configuration, of_kind, train

from trainer.learn import checkpoint, session
from trainer.learn import loop as loops
from trainer.learn.interval import seconds_between_checkpoints
from trainer.learn.loop import Loop
from trainer.run import Run
from trainer.spot.stop import StopRequest


@pytest.fixture
def run(tiny_recipe):
    return Run(Path(tiny_recipe["run_directory"]))


def test_who_asks_for_a_checkpoint_gets_one_and_training_goes_on(tiny_recipe, run):
    stop = StopRequest()

    def ask(kind, step=None, **_):
        if kind == "step" and step == 4:
            stop.ask_save()

    assert train(tiny_recipe, display_steps=1, stop=stop, report=ask, data_val=None) == "finished"
    assert [event["step"] for event in of_kind(run, "checkpoint")] == [4, 20]


def test_who_asks_during_a_validation_gets_one_too(tiny_recipe, run, monkeypatch):
    stop = StopRequest()
    leave = Loop._leave_validation

    def asked_at_each_batch(loop):
        stop.ask_save()
        return leave(loop)

    monkeypatch.setattr(Loop, "_leave_validation", asked_at_each_batch)
    train(tiny_recipe, stop=stop, until_step=10)
    names = [event["path"].rsplit("/", 1)[1] for event in of_kind(run, "checkpoint")]
    assert names == ["00000010-0", "00000010-1"]  # once before it is counted, once as the best so far


def test_the_best_in_validation_is_saved_as_it_was_validated(tiny_recipe, run):
    train(tiny_recipe, epochs=3)
    whole, _ = checkpoint.survey(run)
    best = checkpoint.best(whole, next(iter(whole.values()))["data"]["val"])
    validations = of_kind(run, "validation")
    top1 = max(event["top1"] for event in validations)
    first = next(event for event in validations if event["top1"] == top1)
    assert whole[best]["progress"]["step"] == first["step"]
    assert whole[best]["progress"]["top1"] == whole[best]["progress"]["best_top1"] == top1


def test_training_goes_on_while_a_checkpoint_is_written(tiny_recipe, run):
    """The thread that saves is held until training has made two more steps: nobody waits for it."""
    held, steps = threading.Event(), []

    def report(kind, step=None, **_):
        if kind == "checkpoint" and not held.is_set():
            assert held.wait(30)
        elif kind == "step":
            steps.append(step)
            if len(steps) >= 2 and steps[-2] > 4:
                held.set()

    changes = {"display_steps": 1, "data_val": None, "checkpoint_interval": 0.001}
    assert train(tiny_recipe, report=report, **changes) == "finished"
    assert held.is_set()
    for event in of_kind(run, "checkpoint"):
        assert event["seconds"] >= event["blocked_seconds"] > 0
        assert event["interval_seconds"] == pytest.approx(0.001, abs=0.1)


def test_the_automatic_interval_comes_from_what_saves_cost(tiny_recipe, run):
    train(tiny_recipe, mean_seconds_between_interruptions=1e6)
    saves = of_kind(run, "checkpoint")
    cost = mean(event["seconds"] for event in saves)
    assert saves[-1]["interval_seconds"] == pytest.approx(seconds_between_checkpoints(cost, 1e6), abs=0.5)


def test_what_goes_wrong_in_the_thread_that_saves_is_not_lost(tiny_recipe):
    def report(kind, **_):
        if kind == "checkpoint":
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        train(tiny_recipe, report=report, checkpoint_interval=0.001)


@pytest.mark.parametrize(("long_step_seconds", "lags"), [(0.0, {0}), (1e9, {0, 2})])
def test_long_steps_are_not_run_ahead_of(tiny_recipe, monkeypatch, long_step_seconds, lags):
    seen, read = [], Loop._read_losses
    monkeypatch.setattr(Loop, "_read_losses", lambda loop, lag: (seen.append(lag), read(loop, lag))[1])
    monkeypatch.setattr(loops, "LONG_STEP_SECONDS", long_step_seconds)
    train(tiny_recipe, data_val=None)
    assert set(seen) == lags
    assert seen[0] == 0  # nobody knows yet how long a step takes


@pytest.mark.parametrize(("epochs", "steps"), [(1.002, 10), (1.05, 10), (1.2, 12), (0.002, 0)])
def test_a_last_part_of_an_epoch_that_is_shorter_than_a_batch_or_an_image_ends_the_run(tiny_recipe, run, epochs, steps):
    """With 150 images the tenth batch of 16 ends the epoch and ten images more."""
    assert train(tiny_recipe, epochs=epochs, num_examples=150, warmup_epochs=0) == "finished"
    assert of_kind(run, "stop")[-1]["step"] == steps


def test_a_request_while_there_is_no_data_makes_no_step_event(tiny_recipe, run, monkeypatch):
    stop, step = StopRequest(), Loop._step

    def none_from_the_fourth_on(loop, batches):
        if loop.progress.step == 3:
            stop.ask("signal")
            batches = iter(())
        return step(loop, batches)

    monkeypatch.setattr(Loop, "_step", none_from_the_fourth_on)
    assert train(tiny_recipe, stop=stop, display_steps=1) == "signal"
    assert [event["step"] for event in of_kind(run, "step")] == [1, 2, 3]
    assert of_kind(run, "stop")[-1]["step"] == 3


def test_the_mirror_waits_for_the_newest_checkpoint_whatever_latest_says(tiny_recipe, run):
    asked = []

    class Mirror:
        def wait_for(self, name, deadline):
            asked.append(name)
            return True

    run.directory.mkdir(parents=True)
    run.latest.mkdir()  # cannot be written
    stop = StopRequest()
    session.train(
        configuration(tiny_recipe), run, lambda *_, **__: None, stop, until_step=3, mirror=Mirror()
    )  # fmt: skip
    assert asked == ["00000003-0"]
