"""A run that was stopped anywhere and continued is, bit for bit, the run that was not."""

import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
from mxnet.contrib.amp.loss_scaler import LossScaler
from mxnet.gluon import nn
from training import FILES, TIMES, StopAtLook, configuration, of_kind, train

from trainer.config import Config
from trainer.learn import checkpoint, model, session
from trainer.learn.optimizer import counters, load_counters
from trainer.observe import events
from trainer.run import Run
from trainer.spot.stop import StopRequest

# 20 steps in two epochs; the first two are warm-up.
LONG = {"augmentation": "pad", "epochs": 2}
SHORT = {"augmentation": "pad", "epochs": 1, "data_val": None}
TWO = {"devices": ["cpu(0)", "cpu(1)"]}
OPTIMIZERS = get_args(Config.model_fields["optimizer"].annotation)
KINDS = {
    "one context": LONG,
    "two contexts": LONG | TWO,
    **{name: SHORT | {"optimizer": name, "base_learning_rate": 0.05} for name in OPTIMIZERS},
    "lars on two contexts": SHORT | TWO | {"optimizer": "lars"},
    "dropout": SHORT,
    "dropout on two contexts": SHORT | TWO,
}


@pytest.fixture(autouse=True)
def kind_of_network(request, monkeypatch):
    """Networks of the zoo that have dropout are large."""
    if "dropout" in request.node.name:
        monkeypatch.setattr(model, "_make", with_dropout)


def with_dropout(config: Config):
    network = nn.HybridSequential(prefix=model.PREFIX)
    with network.name_scope():
        network.add(nn.Conv2D(8, 3, strides=2), nn.BatchNorm(), nn.Activation("relu"), nn.Dropout(0.5))
        network.add(nn.GlobalAvgPool2D(), nn.Dense(config.num_classes))
    return network


@pytest.fixture(scope="module")
def straight(tiny_data, tmp_path_factory):
    """The run of a kind that nobody stopped."""
    made = {}

    def run_of(kind: str, recipe: dict) -> Run:
        if kind not in made:
            made[kind] = Run(tmp_path_factory.mktemp("straight") / "run")
            train(recipe | KINDS[kind], run_directory=str(made[kind].directory))
        return made[kind]

    return run_of


def end_of(run: Run) -> dict:
    """All that a run has come to: weights, optimizer, statistics, counts, how far, how good."""
    newest = checkpoint.newest(run)
    state = checkpoint.read_state(newest)
    progress = {key: value for key, value in state["progress"].items() if key not in TIMES}
    return {"progress": progress, "counters": state["counters"]} | {
        name: (newest / name).read_bytes() for name in FILES
    }


def assert_same_end(one: Run, other: Run) -> None:
    first, second = end_of(one), end_of(other)
    assert [key for key in first if first[key] != second[key]] == []


@pytest.mark.parametrize("kind", KINDS)
def test_stops_at_any_steps_change_nothing(tiny_recipe, straight, kind):
    recipe = tiny_recipe | KINDS[kind]
    whole = straight(kind, tiny_recipe)
    run = Run(Path(recipe["run_directory"]))
    last = of_kind(whole, "stop")[-1]["step"]
    # Before the first step, in the warm-up, after it.
    steps = [0, 1, *sorted(random.Random(kind).sample(range(2, last), 2))]
    for step in steps:
        assert train(recipe, until_step=step) == "until_step"
        assert checkpoint.read_state(checkpoint.newest(run))["progress"]["step"] == step
    assert train(recipe) == "finished"
    assert [start["resumed_step"] for start in of_kind(run, "start")] == [0, *steps]
    assert_same_end(whole, run)


def test_dropout_drops(tiny_recipe, straight, monkeypatch):
    """Else the kinds with it would show nothing."""
    dropped = straight("dropout", tiny_recipe)
    monkeypatch.setattr(nn, "Dropout", lambda rate: nn.Activation("relu"))
    train(tiny_recipe | SHORT)
    kept = Run(Path(tiny_recipe["run_directory"]))
    assert end_of(dropped)["weights.params"] != end_of(kept)["weights.params"]


def test_a_run_that_begins_at_an_epoch_may_be_stopped_before_its_first_step(tiny_recipe, tmp_path):
    prefix = str(tmp_path / "model")
    train(tiny_recipe | {"model_prefix": prefix, "epochs": 1, "run_directory": str(tmp_path / "first")})
    recipe = tiny_recipe | {"model_prefix": prefix, "load_epoch": 1}
    assert train(recipe, until_step=0) == "until_step"
    assert train(recipe) == "finished"
    starts = of_kind(Run(Path(recipe["run_directory"])), "start")
    assert [start["resumed_step"] for start in starts] == [10, 10]


def test_stopping_twice_in_a_row_changes_nothing(tiny_recipe, straight):
    recipe = tiny_recipe | LONG
    run = Run(Path(recipe["run_directory"]))
    for step in (7, 7, 3, 8):  # the second and third ask for a step that is done
        assert train(recipe, until_step=step) == "until_step"
    assert [stop["step"] for stop in of_kind(run, "stop")] == [7, 7, 7, 8]
    assert train(recipe) == "finished"
    assert_same_end(straight("one context", tiny_recipe), run)


@pytest.mark.parametrize("looks", [1, 3])
def test_stopping_inside_a_validation_changes_nothing(tiny_recipe, straight, looks):
    recipe = tiny_recipe | LONG | {"display_steps": 1}
    run = Run(Path(recipe["run_directory"]))
    stop = StopAtLook(looks, counting=False)

    def count(kind, step):
        stop.counting = stop.counting or (kind == "step" and step == 10)

    train(recipe, until_step=9)
    assert train(recipe, stop=stop, report=lambda kind, **fields: count(kind, fields.get("step"))) == "signal"
    assert of_kind(run, "stop")[-1]["step"] == 10
    assert of_kind(run, "validation") == []
    assert train(recipe) == "finished"
    assert [event["step"] for event in of_kind(run, "validation")] == [10, 20]
    assert_same_end(straight("one context", tiny_recipe), run)


@pytest.mark.parametrize("kind", ["one context", "two contexts"])
def test_every_checkpoint_written_beside_training_leads_to_the_same_end(tiny_recipe, straight, tmp_path, kind):
    recipe = tiny_recipe | KINDS[kind] | {"checkpoint_interval": 1e-6, "checkpoints_kept": 100}
    run = Run(Path(recipe["run_directory"]))
    train(recipe)
    assert_same_end(straight(kind, tiny_recipe), run)
    written = sorted(run.checkpoints.iterdir())
    assert len(written) > 4
    for path in random.Random(kind).sample(written[:-1], 2):
        other = Run(tmp_path / path.name)
        shutil.copytree(path, other.checkpoints / path.name)
        train(recipe, run_directory=str(other.directory))
        assert_same_end(straight(kind, tiny_recipe), other)


def test_events_are_numbered_over_restarts(tiny_recipe):
    recipe = tiny_recipe | LONG | {"display_steps": 1}
    for step in (2, 5, 9):
        train(recipe, until_step=step)
    log = list(events.read(Run(Path(recipe["run_directory"])).events))
    assert [event["n"] for event in log] == list(range(1, len(log) + 1))


def test_the_loss_scaler_of_mixed_precision_continues():
    scaler, optimizer = LossScaler(), SimpleNamespace(num_update=7)
    scaler._loss_scale, scaler._next_loss_scale, scaler._unskipped = 2.0**15, 2.0**14, 1999
    saved = json.loads(json.dumps(counters(SimpleNamespace(_amp_loss_scaler=scaler, _optimizer=optimizer))))
    assert saved == {
        "updates": 7, "loss_scale": 2.0**15, "next_loss_scale": 2.0**14, "steps_without_overflow": 1999
    }  # fmt: skip
    fresh = LossScaler()
    counts = SimpleNamespace(num_update=0, begin_num_update=0, _all_index_update_counts={0: {}})
    load_counters(SimpleNamespace(_amp_loss_scaler=fresh, _optimizer=counts, _params=[]), saved)
    assert vars(fresh) == vars(scaler)
    assert counts.num_update == 7


def test_a_request_is_answered_with_the_time_until_the_checkpoint_was_on_disk(tiny_recipe):
    run = Run(Path(tiny_recipe["run_directory"]))
    train(tiny_recipe, stop=StopAtLook(4))
    (stop,) = of_kind(run, "stop")
    assert 0 < stop["notice_to_durable_seconds"] < 30
    assert stop["mirrored"] is None


def test_the_stop_event_says_whether_the_second_place_has_the_last_checkpoint(tiny_recipe):
    asked = []

    class Mirror:
        def wait_for(self, name, deadline):
            asked.append((name, deadline))
            return False

    run, log = Run(Path(tiny_recipe["run_directory"])), []
    run.directory.mkdir(parents=True)
    stop = StopRequest()
    stop.ask("notice", deadline=1000.0)
    session.train(configuration(tiny_recipe), run, lambda kind, **fields: log.append((kind, fields)), stop,
                  mirror=Mirror())  # fmt: skip
    assert asked == [("00000000-0", 990.0)]
    assert log[-1][0] == "stop"
    assert (log[-1][1]["reason"], log[-1][1]["mirrored"]) == ("notice", False)
