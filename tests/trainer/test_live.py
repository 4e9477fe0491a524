"""What the live page is told: equal to the logs, bounded, and never without an extreme."""

import json
import os
import socket
import time
import tracemalloc

import pytest
from run_logs import finished, sample, start, step, steps, stop, validation, write_run

from trainer import lease
from trainer.observe import events
from trainer.observe.costs import costs, read_price
from trainer.observe.history import read_history
from trainer.observe.live import LiveView
from trainer.observe.live.learning import Learning
from trainer.observe.metrics import RunMetrics
from trainer.observe.page.details import money
from trainer.observe.ranges import Ranges, machine_json, machine_row
from trainer.observe.rollup import Rollup
from trainer.observe.standing import standing_of

DAY = 86_400
STALL = 43_200


def loaded(run) -> LiveView:
    view = LiveView(run)
    while view.now()["loaded"] < 1:
        pass
    return view


def gpu_sample(t, utils):
    gpus = [
        {"index": n, "util": util, "mem_used_mb": 10_912, "mem_total_mb": 11_996, "power_w": 141.2, "temperature_c": 67}
        for n, util in enumerate(utils)
    ]
    return sample(t, gpus=gpus)


def test_a_rollup_is_exact_until_it_is_full_and_keeps_extremes_after():
    rollup = Rollup(1, 10, grows=True)
    for x in range(10):
        rollup.add(x, [float(x), None])
    assert rollup.column("mean", 0, rollup.places(), 2) == list(range(10))
    assert rollup.column("mean", 1, rollup.places()) == [None] * 10
    for x in range(10, 1000):
        rollup.add(x, [99.0 if x == 777 else 5.0, None])
    keys = rollup.places()
    assert len(keys) <= 10
    assert keys[0] == 0
    assert max(rollup.column("high", 0, keys)) == 99
    assert min(rollup.column("low", 0, keys)) == 0
    assert rollup.width == 128


def test_a_rollup_that_does_not_grow_forgets_its_oldest():
    rollup = Rollup(10, 3, grows=False)
    for x in range(0, 100, 5):
        rollup.add(x, [1.0])
    assert rollup.places() == [7, 8, 9]
    assert rollup.width == 10


def test_the_history_is_the_logs(tmp_path):
    log = finished()
    samples = [gpu_sample(1000 + n, [n % 101, 100]) for n in range(200)]
    seen = loaded(write_run(tmp_path / "r", log, samples)).history()
    step_events = [event for event in log if event["kind"] == "step"]
    whole = seen["speed"]["whole"]
    assert whole["t"] == [event["t"] for event in step_events]
    assert whole["speed"] == [40.0] * 20
    assert whole["wait"] == [10.0] * 20
    assert seen["learning"]["epoch"] == pytest.approx([event["epoch"] for event in step_events], abs=1e-3)
    assert seen["learning"]["loss"] == pytest.approx([event["loss"] for event in step_events], abs=1e-3)
    machine = seen["machine"]["recent"]
    assert machine["t"] == [1000 + n for n in range(200)]
    assert machine["gpus"][0]["util"] == [n % 101 for n in range(200)]
    assert machine["gpus"][1]["memory"] == [10_912] * 200
    assert machine["iowait"] == [5.0] * 200
    assert [(one["epoch"], one["top1"]) for one in seen["validations"]] == [(1, 0.7), (2, 0.75)]
    assert [mark["x"] for mark in seen["marks"]["time"]] == [1101, 1201]
    assert [one["what"] for one in seen["story"]] == ["start", "stop"]
    assert (seen["now"]["state"], seen["now"]["seconds_left"], seen["now"]["best_top1"]) == ("finished", 0.0, 0.75)


def test_a_resume_undoes_what_came_after_its_checkpoint(tmp_path):
    log = [start(1000), *steps(1010, 10, 80), start(2000, resumed_step=50), *steps(2010, 60, 70)]
    log[2:9] = [dict(event, loss=9.0) for event in log[2:9] if event["step"] > 50]
    seen = loaded(write_run(tmp_path / "r", [*log[:1], *steps(1010, 10, 50), *log[2:]])).history()
    assert seen["learning"]["epoch"] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], abs=1e-3)
    assert max(seen["learning"]["loss"]) < 2.1
    assert [mark["kind"] for mark in seen["marks"]["epoch"]] == ["resume"]


def test_an_interruption_is_marked_when_it_was_and_not_when_it_was_told(tmp_path):
    told = {"t": 2000.0, "kind": "interrupted", "reason": "host_lost", "host": "h", "step": 30, "seen": 1042.0}
    log = [start(1000), *steps(1010, 10, 30), told, start(2001, resumed_step=20), step(2010, 30)]
    seen = loaded(write_run(tmp_path / "r", log)).history()
    (mark,) = [mark for mark in seen["marks"]["time"] if mark["kind"] == "interrupted"]
    assert mark["x"] == 1042
    assert "h was lost" in mark["label"]
    assert seen["now"]["interruptions"] == 1


def test_a_start_without_a_step_stands_where_it_went_on(tmp_path):
    log = [start(1000), *steps(1010, 10, 80), start(2000, resumed_step=50, batch_size=64, resumed_samples=1600)]
    now = loaded(write_run(tmp_path / "r", log)).now()
    assert (now["step"], now["epoch"], now["epochs"], now["steps_total"]) == (50, 0.5, 2, 200)
    assert (now["has_stepped"], now["seconds_left"]) == (False, None)
    assert (now["starts"], now["state"]) == (2, "interrupted")


def test_a_stop_counts_the_steps_that_no_event_told(tmp_path):
    now = loaded(write_run(tmp_path / "r", [start(1000), *steps(1010, 10, 80), stop(1090, 87, "signal")])).now()
    assert (now["step"], now["epoch"], now["has_stepped"]) == (87, 0.87, True)


@pytest.mark.parametrize(
    ("age", "activity", "log", "expected"),
    [
        (200, "training", [step(0, 10)], False),
        (310, "training", [step(0, 10)], True),
        (310, "training", [step(0, 10, images_per_second=1.0)], False),  # 32 s a step
        (700, "training", [step(0, 10, images_per_second=1.0)], True),
        (700, "validation", [step(0, 10)], False),
        (3700, "validation", [step(0, 10)], True),
        (700, "training", [], False),
        (1900, "training", [], True),
    ],
)
def test_a_run_that_hangs_is_told(tmp_path, age, activity, log, expected):
    began = time.time() - age
    log = [start(began - bool(log)), *[event | {"t": began} for event in log]]
    run = write_run(tmp_path / "r", log, [sample(time.time(), activity=activity)])
    assert not loaded(run).now()["stands_still"]  # nobody trains it
    with lease.hold(run):
        now = loaded(run).now()
    assert now["stands_still"] == expected
    assert now["step_age_seconds"] == pytest.approx(age, abs=5)


def test_all_forecasts_are_the_same(tmp_path):
    now = time.time()
    run = write_run(tmp_path / "r", [start(now - 4000), step(now - 1800, 10, seconds_left=5400.0)])
    run.price.write_text(json.dumps(PRICE | {"launched_at": now - 3600}))
    with lease.hold(run):
        seen, metrics = loaded(run).now(), RunMetrics(run)
        rows = dict(money(run, read_history(events.read(run.events)), "running")["rows"])
        standing = standing_of(run)["seconds_left"]
        metrics.refresh(now)
    assert seen["costs"]["forecast_usd"] == pytest.approx(2 + 1.5 + 1.5, abs=0.01)
    assert rows["Forecast"] == "$5.00"
    told = float(metrics.text().decode().split("\ntrainer_cost_forecast_usd ")[1].split()[0])
    assert told == pytest.approx(5, abs=0.01)
    assert [seen["seconds_left"], standing] == pytest.approx([3600, 3600], abs=10)


def test_a_crash_loop_of_weeks_stays_small(tmp_path):
    config = {"network": "x" * 2000}
    log = [start(60 * n, config=config, host="h") for n in range(3000)]
    log += [{"t": 60 * n + 1, "kind": "interrupted", "reason": "crash", "seen": 60 * n + 1.0} for n in range(3000)]
    log += [{"t": n, "kind": "checkpoint_failed", "step": 1, "reason": "x" * 500} for n in range(3000)]
    learning = Learning()
    for event in log:
        learning.read(event)
    before, history = learning.revision, learning.history
    for n in range(1000):
        learning.read({"t": 1e6, "kind": "bad_record", "key": f"{n}", "reason": "x"})
    assert learning.revision == before  # else each page would ask for its whole history again
    assert len(json.dumps([vars(history)[name] for name in vars(history)])) < 2e6
    assert (learning.result()["starts"], learning.result()["interruptions"]) == (3000, 3000)


def test_who_looks_at_now_reads_the_newest_samples_only(tmp_path):
    run = write_run(tmp_path / "r", [start(1000)], [sample(1000 + n, padding="x" * 200) for n in range(2000)])
    view = LiveView(run, newest_samples=900)
    assert view.now()["loaded"] == 1
    assert view.history()["machine"]["hours"]["t"][0] == 2100
    with open(run.samples, "a") as file:
        file.write(json.dumps(sample(3000)) + "\n")
    assert view.now()["machine"]["recent"]["t"][-1] == 3000


def a_day(gpus=16):
    """Rows of a day, as many as fill every range; at STALL one GPU is idle."""
    ranges, busy = Ranges(), machine_row(gpu_sample(0, [97.0] * gpus))
    stalled = machine_row(gpu_sample(0, [97.0] * (gpus - 1) + [0.0]))
    for t in [*range(0, DAY - 7200, 60), *range(DAY - 7200, DAY - 600, 10), *range(DAY - 600, DAY)]:
        ranges.add(t, stalled if t == STALL else busy)
    return ranges


def test_a_stall_of_one_second_in_a_day_is_still_there():
    whole = machine_json(a_day(), 16)["whole"]
    assert len(whole["t"]) <= 720
    assert min(whole["gpus"][15]["util_low"]) == 0
    assert min(whole["gpus"][14]["util_low"]) == 97
    assert whole["t"][whole["gpus"][15]["util_low"].index(0)] == pytest.approx(STALL, abs=whole["seconds"])


def test_16_gpus_for_a_day_are_less_than_a_megabyte_and_a_bounded_memory():
    tracemalloc.start()
    ranges = a_day()
    grown, _ = tracemalloc.get_traced_memory()
    for t in range(DAY, 2 * DAY, 60):
        ranges.add(t, machine_row(gpu_sample(t, [97.0] * 16)))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(json.dumps(machine_json(ranges, 16), separators=(",", ":"))) < 800_000
    assert after < 1.25 * grown < 50e6


def test_a_message_is_short_and_holds_the_newest(tmp_path):
    run = write_run(tmp_path / "r", finished()[:-1], [gpu_sample(1000 + n, [97] * 16) for n in range(900)])
    view = loaded(run)
    before = view.history()["revision"]
    with open(run.samples, "a") as file:
        file.write(json.dumps(gpu_sample(1900, [3] * 16)) + "\n")
    told = view.now()
    assert told["revision"] == before
    assert told["machine"]["recent"]["t"][-1] == 1900
    assert told["machine"]["recent"]["gpus"][5]["util"][-1] == 3
    assert len(json.dumps(told)) < 24_000


def test_a_log_that_grows_is_not_loaded_again(tmp_path):
    run = write_run(tmp_path / "r", finished()[:-1], [sample(1000)])
    view = loaded(run)
    before = view.now()["revision"]
    with open(run.samples, "a") as file:
        file.write(json.dumps(sample(1001))[:20])
    told = view.now()
    assert (told["loaded"], told["revision"]) == (1, before)


def test_logs_that_are_replaced_are_read_anew(tmp_path):
    """As when a trainer that resumes brings the run from another machine."""
    run = write_run(tmp_path / "r", [start(1000), *steps(1010, 10, 30)], [sample(1020)])
    view = loaded(run)
    before = view.now()
    other = write_run(tmp_path / "other", finished(500), [sample(600), sample(601)])
    os.replace(other.events, run.events), os.replace(other.samples, run.samples)
    now, history = view.now(), view.history()
    assert now["revision"] != before["revision"] and now["step"] == 200
    assert history["machine"]["recent"]["t"] == [600, 601]
    assert max(history["learning"]["epoch"]) == 2 and len(history["validations"]) == 2


def test_a_long_log_is_read_bit_by_bit(tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.observe.live._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("trainer.observe.live._CHUNK_BYTES", 1 << 12)
    run = write_run(tmp_path / "r", finished()[:3], [sample(1000 + n) for n in range(100)])
    view, shares = LiveView(run), []
    for _ in range(20):
        shares.append(view.now()["loaded"])
    assert shares[0] < 0.3
    assert shares == sorted(shares)
    assert max(shares) == 0.999  # with no time at all, it never knows that it is done
    assert view.history()["machine"]["recent"]["t"] == [1000 + n for n in range(100)]


def test_a_reader_learns_that_more_has_changed_than_the_ends(tmp_path):
    run = write_run(tmp_path / "r", finished()[:-1])
    view = loaded(run)
    before = view.history()["revision"]
    with open(run.events, "a") as file:
        file.write(json.dumps(validation(1300, 200)) + "\n")
    assert view.now()["revision"] != before


def test_long_lines_half_lines_and_odd_values_are_survived(tmp_path):
    matrix = [[1] * 700] * 700  # a line of more than one piece
    log = [start(1000), step(1010, 10, loss=None, images_per_second="fast"), validation(1020, 10, confusion=matrix)]
    log += [{"t": "x", "kind": "step", "step": 3}, {"kind": "step"}, step(1030, 20)]
    odd = [{"t": 1000}, {"t": None}, sample(1001, gpus=[None, 3, {"util": "much"}], cpu=None), sample(1002, gpus=None)]
    run = write_run(tmp_path / "r", log, odd)
    with open(run.events, "a") as file:
        file.write('{"t": 1040, "kind": "st')
    seen = loaded(run).history()
    assert seen["now"]["step"] == 20
    assert seen["validations"][0]["epoch"] == 0.1
    assert len(seen["machine"]["whole"]["gpus"]) == 3


def test_a_run_that_has_not_begun_has_a_page(tmp_path):
    run = write_run(tmp_path / "<r>")
    run.samples.unlink()
    run.events.unlink()
    view = LiveView(run)
    assert view.now()["state"] == "not started"
    assert view.history()["story"] == []
    assert b"&lt;r&gt;" in view.page()
    assert b"<r>" not in view.page()


def test_assets_are_all_that_the_page_names(tmp_path):
    view = LiveView(write_run(tmp_path / "r"))
    names = [part.split(b'"')[0].decode() for part in view.page().split(b"assets/")[1:]]
    assert len(names) == 9
    assert all(len(view.asset(name)[0]) > 500 for name in names)
    assert [view.asset(name)[1].split(";")[0] for name in names[:3]] == ["text/css", "text/css", "text/javascript"]
    assert view.asset("../live.py") is None
    assert view.asset("live.js") is None


PRICE = {
    "price_usd_per_hour": 1.5, "on_demand_usd_per_hour": 15.0, "launched_at": 3600.0, "spent_before_usd": 2.0,
    "spent_before_on_demand_usd": 20.0, "budget_usd": 10, "market": "spot", "instance_type": "p2.16xlarge",
}  # fmt: skip


@pytest.mark.parametrize(
    ("price", "left", "expected"),
    [
        ({}, 7200, {"so_far_usd": 5.0, "on_demand_so_far_usd": 50.0, "forecast_usd": 8.0, "saving_usd": 72.0}),
        ({}, None, {"forecast_usd": None, "saving_usd": 45.0, "saving_share": 0.9, "over_budget": False}),
        ({}, 18_000, {"forecast_usd": 12.5, "over_budget": True}),
        ({"on_demand_usd_per_hour": None}, 7200, {"on_demand_so_far_usd": None, "saving_usd": None}),
        ({"budget_usd": None}, 1e6, {"over_budget": False, "budget_usd": None}),
        ({"spent_before_usd": None}, None, {"so_far_usd": 3.0}),
        ({"launched_at": 1e9}, None, {"so_far_usd": 2.0}),
    ],
)
def test_costs(price, left, expected):
    found = costs(PRICE | price, 3600.0 * 3, left)
    assert {key: found[key] for key in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"price_usd_per_hour": 1}', '{"price_usd_per_hour": NaN, "launched_at": 1}']
)
def test_a_price_that_says_none_is_none(tmp_path, text):
    (tmp_path / "price.json").write_text(text)
    assert read_price(tmp_path / "price.json") is None


def test_costs_come_with_the_messages(tmp_path):
    log = [start(1000, host=socket.gethostname()), step(1010, 10), stop(1020, 10, "signal")]
    run = write_run(tmp_path / "r", log)
    assert loaded(run).now()["costs"] is None
    run.price.write_text(json.dumps(PRICE | {"launched_at": time.time() - 3600}))
    assert loaded(run).now()["costs"]["so_far_usd"] == pytest.approx(3.5, abs=0.01)


def test_costs_of_a_machine_that_is_gone_stand_still(tmp_path):
    """The run's directory was fetched: nobody trains, and what was trained last was trained elsewhere."""
    run = write_run(tmp_path / "r", [start(1000), step(1010, 10)], [sample(4600), sample(8200)])
    run.price.write_text(json.dumps(PRICE | {"launched_at": 1000.0}))
    assert loaded(run).now()["costs"]["so_far_usd"] == pytest.approx(5)
    with lease.hold(run):
        assert loaded(run).now()["costs"]["so_far_usd"] > 1000
