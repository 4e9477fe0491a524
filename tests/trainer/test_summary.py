"""report.json: what a run has come to, for runs that ended in every way."""

import pytest
from run_logs import checkpoint, finished, start, step, steps, stop, validation, write_run

from trainer import lease
from trainer.observe import events
from trainer.observe.history import read_history
from trainer.observe.summary import summarise

KILLED = finished()[:-1]
RESUMED = [
    start(1000), *steps(1010, 10, 100), checkpoint(1101, 100), validation(1102, 100, 0.7), *steps(1110, 110, 120),
    start(2000, resumed_step=100), *steps(2010, 110, 200), validation(2101, 200, 0.8), stop(2102, 200),
]  # fmt: skip


def summary(tmp_path, log):
    run = write_run(tmp_path / "r", log)
    return summarise(run, read_history(events.read(run.events)))


def test_a_finished_run(tmp_path):
    expected = {
        "run": "r", "version": "0.1.0", "state": "finished", "finished": True, "stop_reason": "finished", "top1": 0.75,
        "top5": 1.0, "best_top1": 0.75, "loss": 1.0, "validation_loss": 0.5, "images_per_second": 40.0,
        "epochs": 2, "epochs_total": 2, "steps": 200, "steps_total": 200, "samples_seen": 6400, "wall_seconds": 200.0,
        "started": "1970-01-01T00:16:40+00:00", "ended": "1970-01-01T00:20:03+00:00", "resumes": 0, "checkpoints": 2,
        "checkpoints_failed": 0, "interrupted_by": None, "notice_to_durable_seconds": None, "bad_records": 0,
        "model": {},
    }  # fmt: skip
    got = summary(tmp_path, finished())
    epochs = got.pop("per_epoch")
    assert got == expected
    assert [(row["epoch"], row["top1"]) for row in epochs] == [(1, 0.7), (2, 0.75)]
    assert [row["train_loss"] for row in epochs] == pytest.approx([2 - 55 / 200, 2 - 155 / 200])


def test_nothing_happened_yet(tmp_path):
    got = summary(tmp_path, [])
    assert got["state"] == "not started"
    assert (got["finished"], got["stop_reason"], got["top1"], got["top5"], got["images_per_second"]) == (
        False,
        *[None] * 4,
    )
    assert (got["epochs"], got["steps"], got["samples_seen"], got["wall_seconds"]) == (0, 0, 0, 0)


def test_a_killed_run_is_interrupted_and_its_numbers_come_from_its_steps(tmp_path):
    log = [*finished()[:-3], step(1300, 210, images_per_second=10.0)]
    got = summary(tmp_path, log)
    assert (got["state"], got["finished"], got["stop_reason"]) == ("interrupted", False, None)
    assert (got["steps"], got["samples_seen"], got["epochs"]) == (210, 6720, 2)  # of 200: no third epoch
    assert got["images_per_second"] == pytest.approx(6720 / (6400 / 40 + 320 / 10), abs=0.01)
    assert got["wall_seconds"] == 300


def test_a_run_whose_lease_is_held_is_running(tmp_path):
    with lease.hold(write_run(tmp_path / "r")):
        got = summary(tmp_path, KILLED)
    assert (got["state"], got["ended"]) == ("running", None)


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("signal", "stopped"),
        ("request", "stopped"),
        ("notice", "stopped"),
        ("until_step", "stopped"),
        ("non_finite_loss", "failed"),
        ("error", "failed"),
        ("new", "failed"),
    ],
)
def test_a_run_that_ended_early_says_why(tmp_path, reason, state):
    got = summary(tmp_path, [start(1000), step(1010, 10, loss=None), stop(1011, 10, reason)])
    assert (got["state"], got["finished"], got["stop_reason"], got["loss"]) == (state, False, reason, None)


def test_a_start_after_a_stop_reopens_the_run(tmp_path):
    got = summary(tmp_path, [*finished(), start(2000, resumed_step=200, epochs=4)])
    assert (got["state"], got["finished"], got["epochs"], got["epochs_total"]) == ("interrupted", False, 2, 4)


def test_a_resumed_run_counts_each_step_once_and_no_time_between_starts(tmp_path):
    got = summary(tmp_path, RESUMED[:-1])
    assert (got["resumes"], got["samples_seen"], got["best_top1"]) == (1, 6400, 0.8)
    assert got["images_per_second"] == pytest.approx(40)
    assert got["wall_seconds"] == 120 + 101


def test_later_starts_supersede_what_they_repeat(tmp_path):
    log = [*finished(), start(2000, resumed_step=100), *steps(2010, 110, 130)]
    history = read_history(log)
    assert [event["step"] for event in history.steps] == list(range(10, 140, 10))
    assert [event["step"] for event in history.validations] == [100]
    assert [event["step"] for event in history.superseded_steps] == list(range(110, 210, 10))
    assert [event["t"] for event in history.all_steps] == sorted(event["t"] for event in history.all_steps)


def test_epochs_are_counted_in_images_when_the_batch_changed(tmp_path):
    """50 steps of 32, then 25 of 64: one epoch of 3200 images."""
    resumed = start(2000, resumed_step=50, resumed_samples=1600, batch_size=64, examples=3200, steps_total=125)
    log = [start(1000), *steps(1010, 10, 80), resumed, *steps(2010, 60, 75)]
    history = read_history(log)
    assert [history.epoch_at(step) for step in (25, 50, 75, 100)] == [0.25, 0.5, 1.0, 1.5]
    assert history.epoch_at(80, t=1100) == 0.8  # of the first start, before the second one took it back
    assert history.epoch_at(125) == history.epoch_at(126) == 2  # the last step sees some images of a third epoch
    assert summary(tmp_path, [*log, step(2100, 75)])["epochs"] == 1.0


def test_the_words_of_a_training_that_ended_without_a_word_are_in_the_summary(tmp_path):
    told = {"t": 1999, "kind": "interrupted", "reason": "killed", "step": 120, "seen": 1130.0, "host": "here"}
    log = [*RESUMED[:13], told, *RESUMED[13:]]
    assert summary(tmp_path, log)["interrupted_by"] == "it was killed, after step 120"
    assert read_history(log).active_seconds == read_history(RESUMED).active_seconds  # the time between is none of it
    failed = {"t": 1100, "kind": "checkpoint_failed", "step": 100, "reason": "full", "retry_seconds": 10.0}
    stopped = stop(1111, 110, "notice", notice_to_durable_seconds=1.5)
    got = summary(tmp_path, [*RESUMED[:11], failed, stopped])
    assert (got["checkpoints_failed"], got["notice_to_durable_seconds"]) == (1, 1.5)


def test_a_fresh_start_supersedes_everything():
    history = read_history([*finished(), start(2000)])
    assert history.steps == history.validations == []


def test_a_bad_record_met_in_each_epoch_counts_once(tmp_path):
    bad = [
        {"t": 1001 + t, "kind": "bad_record", "key": key, "offset": 0, "reason": "cut"} for t, key in enumerate("aba")
    ]
    assert summary(tmp_path, [start(1000), *bad])["bad_records"] == 2


def test_exported_files_are_named_once_they_are_there(tmp_path):
    (tmp_path / "r").mkdir()
    for name in ("model-symbol.json", "model-0000.params", "model.json"):
        (tmp_path / "r" / name).touch()
    model = summary(tmp_path, finished())["model"]
    assert model == {
        "symbol": str(tmp_path / "r/model-symbol.json"),
        "parameters": str(tmp_path / "r/model-0000.params"),
        "card": str(tmp_path / "r/model.json"),
    }


@pytest.mark.parametrize(
    "junk",
    [
        {"t": 1, "kind": "notice", "action": "stop"},
        {"kind": "step", "step": 5},
        {"t": "late", "kind": "step", "step": 5},
        {"t": 1500, "kind": "step", "step": None},
        {"t": 1500, "kind": ["step"]},
        {"t": float("nan"), "kind": "stop", "reason": "error"},
        {},
    ],
)
def test_events_that_say_nothing_usable_change_nothing(tmp_path, junk):
    assert summary(tmp_path, [*finished()[:5], junk, *finished()[5:]]) == summary(tmp_path, finished())
