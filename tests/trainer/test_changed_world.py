"""Continuing with other settings, data or code: by a rule that is told, or not at all."""

import json
import re
import shutil
from pathlib import Path

import mxnet as mx
import pytest
from tiny_data import write_records
from training import configuration, of_kind, train

from trainer import __version__
from trainer.config import Config
from trainer.data import native
from trainer.data.manifest import manifest_path
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


REFUSED = {
    "network": "resnet18_v1", "num_layers": 20, "num_classes": 5, "image_shape": [3, 24, 24], "optimizer": "adam",
    "precision": "bfloat16", "seed": 1, "num_examples": 100, "momentum": 0.0, "mean": [0, 0, 0], "std": [1, 1, 1],
    "label_width": 2,
}  # fmt: skip


def test_every_refused_key_is_tried_below():
    assert {key for key, rule in resume.RULES.items() if rule.refused} | {"momentum"} == set(REFUSED)


def test_what_cannot_be_continued_is_refused_by_name_and_harms_nothing(stopped, tmp_path):
    recipe, run = stopped
    for key, value in REFUSED.items():
        changed = {key: value}
        if key == "network":
            changed["num_layers"] = None
        if key == "label_width":
            changed |= {"data_train": write_two_labels(tmp_path / "two.rec"), "data_val": None}
        with pytest.raises(ConfigError, match=f"{key} must be .* to continue .*, got .*: ") as error:
            train(recipe, **changed)
        assert "another run's name" in str(error.value)
        assert checkpoint.newest(run).name == "00000005-0"
    assert train(recipe) == "finished"


def write_two_labels(path: Path) -> str:
    records = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for key in range(160):
        records.write_idx(key, mx.recordio.pack(mx.recordio.IRHeader(0, [0.0, 1.0], key, 0), b"picture"))
    records.close()
    return str(path)


@pytest.mark.parametrize("optimizer", ["adam", "lamb", "rmsprop"])
def test_a_momentum_that_the_optimizer_does_not_use_may_vanish(tiny_recipe, optimizer):
    recipe = tiny_recipe | {"optimizer": optimizer, "base_learning_rate": 0.01}
    train(recipe, until_step=1)
    assert train(recipe, until_step=2, momentum=0.0) == "until_step"


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
    (told,) = (line for line in of_kind(run, "start")[-1]["explained"] if line.startswith("data_val is "))
    assert f"{other} (4 records" in told
    assert "make the best so far begin anew" in told


def test_another_validation_set_at_the_same_path_is_told_too(tiny_recipe, tmp_path):
    recipe = tiny_recipe | {"data_val": str(write_records(tmp_path / "val.rec", 8))}
    run = Run(Path(recipe["run_directory"]))
    train(recipe, until_step=11)
    write_records(tmp_path / "val.rec", 8, seed=9)
    train(recipe, until_step=12)
    start = of_kind(run, "start")[-1]
    assert list(start["changed"]) == ["data_val"]
    assert "make the best so far begin anew" in start["explained"][0]
    assert checkpoint.read_state(checkpoint.newest(run))["progress"]["best_top1"] is None


def test_the_same_validation_data_with_a_checksum_more_keeps_the_best(tiny_recipe, tmp_path):
    val = write_records(tmp_path / "val.rec", 8)
    recipe = tiny_recipe | {"data_val": str(val)}
    run = Run(Path(recipe["run_directory"]))
    train(recipe, until_step=11)
    manifest_path(val).write_text(json.dumps({"records": 8, "rec_sha256": "ab" * 32}))
    train(recipe, until_step=12)
    assert of_kind(run, "start")[-1]["changed"] == {}
    assert checkpoint.read_state(checkpoint.newest(run))["progress"]["best_top1"] is not None
    assert "00000010-1" in {path.name for path in checkpoint.survey(run)[0]}


def test_other_code_continues_and_is_told(stopped, monkeypatch, tmp_path):
    recipe, run = stopped
    monkeypatch.setattr(resume, "__version__", "0.9.0")
    train(recipe, until_step=6)
    start = of_kind(run, "start")[-1]
    before, now = start["changed"]["code"]
    assert now == before.replace(__version__, "0.9.0") != before
    assert start["explained"] == [f"code is {now}, was {before}: what a step does may have changed"]


@pytest.mark.parametrize("name", ["learn/step.py", "data/native/crop.c"])
def test_a_line_changed_is_other_code(monkeypatch, tmp_path, name):
    copy = shutil.copytree(resume.PACKAGE, tmp_path / "trainer", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(resume, "PACKAGE", copy)
    before = resume._code_digest()
    with open(copy / name, "a") as file:
        file.write("\n")
    assert resume._code_digest() != before


def test_another_decoder_is_told(tiny_recipe, monkeypatch):
    recipe = tiny_recipe | {"augmentation": "crop"}
    train(recipe, until_step=2)
    monkeypatch.setattr(native, "decoder_name", lambda: "another")
    train(recipe, until_step=3)
    start = of_kind(Run(Path(recipe["run_directory"])), "start")[-1]
    assert list(start["changed"]) == ["decoder"]
    assert start["explained"][0].endswith("pixels may be rounded otherwise")


def test_all_that_may_differ_has_words(tiny_recipe):
    train(tiny_recipe, until_step=1)
    state = checkpoint.read_state(checkpoint.newest(Run(Path(tiny_recipe["run_directory"]))))
    told = {*state["versions"], *state["effective"]}
    lines = resume.explained(dict.fromkeys(told, ["a", "b"]), configuration(tiny_recipe))
    assert all(line.partition(": ")[2] for line in lines)
