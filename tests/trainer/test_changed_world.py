"""Continuing with other settings, data or code: by a rule that is told, or not at all."""

import re
from pathlib import Path

import pytest
from tiny_data import write_records
from training import configuration, of_kind, train

from trainer.config import Config
from trainer.errors import ConfigError
from trainer.learn import checkpoint, resume
from trainer.learn.schedule import learning_rate
from trainer.run import Run

DOCUMENT = Path(__file__).parents[2] / "docs" / "resume.md"


@pytest.fixture
def stopped(tiny_recipe):
    """(recipe, run) of a training that stopped after 5 of 20 steps, in its first epoch."""
    recipe = tiny_recipe | {"display_steps": 1}
    train(recipe, until_step=5)
    return recipe, Run(Path(recipe["run_directory"]))


def test_every_key_of_the_configuration_has_a_rule():
    assert set(resume.RULES) == set(Config.model_fields)


def test_the_document_says_the_same():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert rows == [
        (key, "refused" if rule.refused else "taken", rule.words) for key, rule in resume.RULES.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("network", "resnet18_v1"), ("num_layers", 20), ("num_classes", 5), ("image_shape", [3, 24, 24]),
        ("optimizer", "adam"), ("precision", "bfloat16"), ("seed", 1), ("num_examples", 100), ("momentum", 0.0),
        ("mean", [0, 0, 0]), ("std", [1, 1, 1]),
    ],
)  # fmt: skip
def test_what_cannot_be_continued_is_refused_by_name_and_harms_nothing(stopped, key, value):
    recipe, run = stopped
    changed = {key: value} | ({"num_layers": None} if key == "network" else {})
    with pytest.raises(ConfigError, match=f"{key} must be .* to continue .*, got .*: ") as error:
        train(recipe, **changed)
    assert "another run's name" in str(error.value)
    assert checkpoint.newest(run).name == "00000005-0"
    assert train(recipe) == "finished"


def test_another_batch_size_keeps_the_images_and_takes_the_learning_rate_with_it(stopped):
    recipe, run = stopped
    assert train(recipe, batch_size=32) == "finished"
    start = of_kind(run, "start")[-1]
    assert start["changed"] == {"batch_size": [16, 32], "learning_rate_peak": [0.05, 0.1]}
    assert any("the learning rate follows the batch" in line for line in start["explained"])
    steps = [event for event in of_kind(run, "step") if event["step"] > 5]
    # 80 images are done, 240 are left: 8 steps of 32, the last of which takes a part of another epoch.
    assert [event["samples"] for event in steps] == [80 + 32 * number for number in range(1, 9)]
    assert {event["steps_total"] for event in steps} == {start["steps_total"]} == {13}
    config = configuration(recipe, batch_size=32)
    assert [event["learning_rate"] for event in steps] == [
        learning_rate(config, event["samples"] - 32, 160) for event in steps
    ]
    assert [event["epoch"] for event in of_kind(run, "validation")] == [1.1, 2.0]


def test_a_literal_learning_rate_stays_and_that_is_told(tiny_recipe):
    recipe = tiny_recipe | {"base_learning_rate": None, "learning_rate": 0.05}
    train(recipe, until_step=2)
    train(recipe, until_step=3, batch_size=32)
    start = of_kind(Run(Path(recipe["run_directory"])), "start")[-1]
    assert start["changed"] == {"batch_size": [16, 32]}
    assert "learning_rate is given as it is, so it stays 0.05" in start["explained"][0]


def test_another_plan_is_computed_from_the_images_seen(stopped):
    recipe, run = stopped
    changes = {"epochs": 4, "base_learning_rate": 0.4, "schedule": "steps", "learning_rate_step_epochs": [1, 2]}
    assert train(recipe, **changes) == "finished"
    start = of_kind(run, "start")[-1]
    assert set(start["changed"]) == {*changes, "learning_rate_peak"}
    rates = {event["step"]: event["learning_rate"] for event in of_kind(run, "step") if event["step"] > 5}
    assert (rates[6], rates[11], rates[21]) == (0.025, pytest.approx(0.0025), pytest.approx(0.00025))
    assert max(rates) == 40


@pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 1)])
def test_another_number_of_devices_continues(tiny_recipe, before, now):
    names = ["cpu(0)", "cpu(1)"]
    train(tiny_recipe, until_step=5, devices=names[:before])
    assert train(tiny_recipe, devices=names[:now]) == "finished"
    start = of_kind(Run(Path(tiny_recipe["run_directory"])), "start")[-1]
    assert start["changed"] == {"devices": [names[:before], names[:now]]}
    assert "mean of the saved devices' batch-norm statistics" in start["explained"][0]


def test_the_same_records_elsewhere_are_the_same_data(stopped, tmp_path):
    recipe, run = stopped
    moved = write_records(tmp_path / "moved.rec", 160)
    assert train(recipe, data_train=str(moved)) == "finished"
    assert set(of_kind(run, "start")[-1]["changed"]) == {"data_train"}


@pytest.mark.parametrize(("count", "seed"), [(170, 0), (160, 5)])
def test_another_training_set_is_refused(stopped, tmp_path, count, seed):
    recipe, _ = stopped
    other = write_records(tmp_path / "other.rec", count, seed)
    with pytest.raises(ConfigError, match=rf"data_train must be the data set of .*\(160 records.*\({count} records"):
        train(recipe, data_train=str(other))


def test_another_validation_set_makes_the_best_begin_anew(tiny_recipe, tmp_path):
    recipe = tiny_recipe | {"epochs": 3}
    run = Run(Path(recipe["run_directory"]))
    train(recipe, until_step=11)
    first = checkpoint.read_state(checkpoint.newest(run))["progress"]
    assert first["best_top1"] is not None
    other = write_records(tmp_path / "other.rec", 4, seed=9)
    train(recipe, until_step=12, data_val=str(other))
    progress = checkpoint.read_state(checkpoint.newest(run))["progress"]
    assert (progress["best_top1"], progress["top1"], progress["validated_epochs"]) == (None, None, 1)


def test_other_code_continues_and_is_told(stopped, monkeypatch):
    recipe, run = stopped
    monkeypatch.setattr(resume, "__version__", "0.2.0")
    train(recipe, until_step=6)
    before, now = of_kind(run, "start")[-1]["changed"]["code"]
    assert now == before.replace("0.1.0", "0.2.0") != before
