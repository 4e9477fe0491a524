"""What the monitor learns from a run's events."""

import json

import pytest
from run_logs import checkpoint, start, step, stop, validation, write_run

from trainer.observe.tail import Follower, read_last
from trainer.observe.training_state import TrainingState


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "r")


def log(run, *events):
    with open(run.events, "a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def sample(run, now, *events):
    log(run, *events)
    return TrainingState(run).sample(now)


STEPS = (start(1000, devices=["gpu(0)", "gpu(1)"]), step(1010, 10), step(1020, 20))


def test_a_run_that_trains(run):
    assert sample(run, 1021, *STEPS) == {
        "images_per_second": 40.0, "data_wait_share": 0.1, "step_seconds": 0.8, "steps": 20, "decode_threads": 2,
        "batch_size": 32, "activity": "training", "gpus_expected": 2,
    }  # fmt: skip


def test_before_anything_is_known(run):
    values = sample(run, 1000)
    assert values.pop("activity") == "training"
    assert set(values.values()) == {None}


def test_an_old_speed_is_no_speed_but_the_steps_stay(run):
    got = sample(run, 1020 + 31, *STEPS)  # three times the interval of 10 s
    assert (got["images_per_second"], got["data_wait_share"], got["step_seconds"], got["steps"]) == (*[None] * 3, 20)
    assert sample(run, 1020 + 29)["images_per_second"] == 40.0


def test_no_first_step_for_ten_minutes_is_a_speed_of_zero(run):
    assert sample(run, 1599, start(1000))["images_per_second"] is None
    assert sample(run, 1601)["images_per_second"] == 0.0


def test_a_start_that_continues_has_no_steps_before_its_first(run):
    assert sample(run, 2001, *STEPS, start(2000, resumed_step=20))["steps"] is None


@pytest.mark.parametrize(
    ("events", "activity"),
    [
        ([{"t": 1021, "kind": "validating", "step": 20}], "validation"),
        ([{"t": 1021, "kind": "validating", "step": 20}, checkpoint(1022, 20)], "validation"),
        ([{"t": 1021, "kind": "validating", "step": 20}, validation(1023, 20)], "training"),
        ([stop(1021, 20)], "stopped"),
        ([stop(1021, 20), start(1030)], "training"),
    ],
)
def test_what_it_does(run, events, activity):
    assert sample(run, 1024, *STEPS, *events)["activity"] == activity


def test_the_share_of_checkpoints_is_that_of_the_last_minutes(run):
    assert "checkpoint_share" not in sample(run, 1050, *STEPS)
    saves = [checkpoint(1100 + 50 * number, 20) | {"seconds": 15.0} for number in range(20)]
    assert sample(run, 2060, *saves)["checkpoint_share"] == pytest.approx(0.3, abs=0.05)
    blocked = sample(run, 2060, *[save | {"t": save["t"] + 1, "blocked_seconds": 0.0} for save in saves])
    assert blocked["checkpoint_share"] == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize(
    ("text", "roof"),
    [('{"roof_images_per_second": 792.5}', 792.5), ('{"roof_images_per_second": 0}', None), ("{", None), ("[]", None)],
)
def test_the_roof_is_the_tuned_one(run, text, roof):
    (run.directory / "tuning.json").write_text(text)
    assert sample(run, 1021, *STEPS).get("roof_images_per_second") == roof


@pytest.mark.parametrize(("of_the_start", "roof"), [("64 x A", 792.5), ("16 x B", None), (None, 792.5)])
def test_a_roof_of_another_kind_of_machine_says_nothing(run, of_the_start, roof):
    (run.directory / "tuning.json").write_text('{"roof_images_per_second": 792.5, "host_kind": "64 x A"}')
    begun = start(1001) | ({"host_kind": of_the_start} if of_the_start else {})
    assert sample(run, 1021, begun, *STEPS[1:]).get("roof_images_per_second") == roof


def test_a_follower_gives_each_line_once_and_only_whole_ones(tmp_path):
    path = tmp_path / "log"
    follower = Follower(path)
    assert follower.new() == []
    with open(path, "w", buffering=1) as file:
        file.write('{"a": 1}\n{"a"')
        file.flush()
        assert follower.new() == [{"a": 1}]
        file.write(': 2}\nnonsense\n[3]\n')
        file.flush()
    assert follower.new() == [{"a": 2}]
    assert follower.new() == []


@pytest.mark.parametrize("count", [1, 3, 5000, 20_000])
def test_the_last_lines_of_a_long_file(tmp_path, count):
    path = tmp_path / "log"
    path.write_text("".join(f'{{"n": {number}}}\n' for number in range(10_000)) + '{"half')
    got = read_last(path, count)
    assert [entry["n"] for entry in got] == list(range(max(10_001 - count, 0), 10_000))
