"""A run's metrics: what they count, that no counter forgets, their names, and that there is a bound to the series."""

import json
import os
import random
import re
import socket
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_tools import promtool
from run_logs import checkpoint, finished, sample, start, step, steps, stop, validation, write_run
from serving import value

from trainer import lease
from trainer.observe.metrics import RunMetrics

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOW = 1_800_000_000.0
# More than 16 GPUs and everything else has; what 16 GPUs have is tested to stay below it.
MOST_SERIES = 250


def gpu(place, **more):
    return {
        "index": place, "uuid": f"GPU-{place}", "pci_bus_id": f"00000000:{place:02X}:1E.0", "util": 97,
        "mem_used_mb": 9000, "mem_total_mb": 11_439, "power_w": 140.5, "sm_clock_mhz": 875, "temperature_c": 66,
        "throttle": None, "ecc_errors": 0, **more,
    }  # fmt: skip


def on_gpus(*gpus, t=NOW, expected=None, **more):
    return sample(t, gpus=list(gpus), gpus_expected=len(gpus) if expected is None else expected, **more)


def text_of(run, now=NOW) -> str:
    metrics = RunMetrics(run)
    metrics.refresh(now)
    return metrics.text().decode()


def text(tmp_path, events=(), samples=(), now=NOW) -> str:
    return text_of(write_run(tmp_path / "r", events, samples), now)


def append(path, *entries):
    with open(path, "a") as file:
        file.writelines(json.dumps(entry) + "\n" for entry in entries)


def full_run(tmp_path):
    """A run in which all that can happen has happened."""
    events = [
        start(NOW - 900), *steps(NOW - 890, 10, 50), checkpoint(NOW - 840, 50) | {"interval_seconds": 60.0},
        {"t": NOW - 835, "kind": "bad_record", "key": 7, "offset": 1, "reason": "no JPEG"},
        {"t": NOW - 834, "kind": "imds", "ok": False, "errors": 3, "reason": "no answer"},
        {"t": NOW - 830, "kind": "notice", "action": "terminate", "time": None},
        {"t": NOW - 829, "kind": "checkpoint_failed", "step": 50, "reason": "disk", "retry_seconds": 1},
        {"t": NOW - 500, "kind": "interrupted", "reason": "host_lost", "step": 50},
        start(NOW - 500, resumed_step=40), *steps(NOW - 490, 50, 90), validation(NOW - 430, 90, 0.7),
    ]  # fmt: skip
    run = write_run(tmp_path / "r", events, [on_gpus(*map(gpu, range(16)), images_per_second=700.0)])
    run.tuning.write_text(json.dumps({"roof_images_per_second": 800.0}))
    run.mirror_state.write_text(json.dumps({"failures_total": 4}))
    price = {"price_usd_per_hour": 1.5, "launched_at": NOW - 7200, "spent_before_usd": 10.0, "budget_usd": 20.0}
    (run.directory / "price.json").write_text(json.dumps(price))
    return run


def test_all_that_happened_is_there(tmp_path):
    found = text_of(full_run(tmp_path))
    expected = {
        # 50 steps, then 50 from step 40 on: ten of them twice.
        "trainer_steps_total": 100, "trainer_samples_total": 100 * 32,
        "trainer_data_wait_seconds_total": 100 * 32 / 40 * 0.1,
        "trainer_step_duration_seconds_count": 100, "trainer_step_duration_seconds_sum": 80,
        'trainer_step_duration_seconds_bucket{le="0.5"}': 0, 'trainer_step_duration_seconds_bucket{le="1.0"}': 100,
        'trainer_step_duration_seconds_bucket{le="+Inf"}': 100,
        "trainer_checkpoint_duration_seconds_count": 1, "trainer_checkpoint_duration_seconds_sum": 0.1,
        "trainer_checkpoint_interval_seconds": 60, "trainer_checkpoint_failures_total": 1,
        "trainer_bad_records_total": 1, "trainer_imds_errors_total": 3, "trainer_mirror_failures_total": 4,
        'trainer_interruptions_total{kind="notice"}': 1, 'trainer_interruptions_total{kind="host_lost"}': 1,
        'trainer_interruptions_total{kind="killed"}': 0, 'trainer_restarts_total{reason="host_lost"}': 1,
        'trainer_restarts_total{reason="signal"}': 0, 'trainer_loss{split="train"}': 2 - 90 / 200,
        'trainer_loss{split="validation"}': 0.5, 'trainer_accuracy_ratio{split="validation"}': 0.7,
        "trainer_learning_rate": 0.1, "trainer_epoch": 0.9, "trainer_progress_ratio": 0.45,
        "trainer_last_step_timestamp_seconds": NOW - 450, "trainer_last_checkpoint_timestamp_seconds": NOW - 840,
        "trainer_last_sample_timestamp_seconds": NOW, "trainer_start_timestamp_seconds": NOW - 500,
        "trainer_images_per_second": 700, "trainer_roof_images_per_second": 800, "trainer_attained_ratio": 0.875,
        "trainer_cost_usd_total": 13, "trainer_price_usd_per_hour": 1.5, "trainer_budget_usd": 20,
        "trainer_up": 0, "trainer_finished": 0, "trainer_validating": 0, "trainer_nvml_up": 1,
        "trainer_gpus_expected": 16, 'trainer_gpu_up{gpu="00000000:0F:1E.0"}': 1,
        'trainer_gpu_utilization_ratio{gpu="00000000:00:1E.0"}': 0.97,
        'trainer_gpu_memory_used_bytes{gpu="00000000:00:1E.0"}': 9e9,
        'trainer_gpu_memory_limit_bytes{gpu="00000000:00:1E.0"}': 11_439e6,
        'trainer_gpu_temperature_celsius{gpu="00000000:00:1E.0"}': 66,
        'trainer_gpu_power_watts{gpu="00000000:00:1E.0"}': 140.5,
        'trainer_gpu_ecc_errors_total{gpu="00000000:00:1E.0"}': 0,
        'trainer_build_info{mxnet="1.9.1",run="r",version="0.1.0"}': 1,
    }  # fmt: skip
    assert {name: value(found, name) for name in expected} == pytest.approx(expected)
    assert value(found, "trainer_disk_free_bytes") <= value(found, "trainer_disk_size_bytes")


def families(found: str):
    return list(text_string_to_metric_families(found))


def test_names_labels_and_types_follow_the_conventions(tmp_path):
    for family in families(text_of(full_run(tmp_path))):
        assert re.fullmatch(r"trainer_[a-z0-9]+(_[a-z0-9]+)*", family.name), family.name
        assert family.documentation
        assert not re.search(r"_(ms|mb|gb|minutes|hours|percent|milliseconds)(_|$)", family.name), family.name
        for entry in family.samples:
            assert entry.name.endswith("_total") == (family.type == "counter"), entry.name
            assert set(entry.labels) <= {"gpu", "kind", "split", "reason", "le", "version", "mxnet", "run"}, entry
            if set(entry.labels) & {"run", "version", "mxnet"}:
                assert entry.name == "trainer_build_info"
        if family.name.endswith("_ratio"):
            assert all(0 <= entry.value <= 1 for entry in family.samples), family


def test_all_names_of_the_documentation_are_there_and_no_others(tmp_path):
    rows = [line for line in (DOCS / "metrics.md").read_text().splitlines() if line.startswith("|")]
    documented = set(re.findall(r"`(trainer_\w+)", "\n".join(rows)))
    assert {
        family.name + ("_total" if family.type == "counter" else "")
        for family in families(text_of(full_run(tmp_path)))
    } | {"trainer_cost_forecast_usd"} == documented


def test_promtool_has_nothing_to_say(tmp_path):
    assert promtool("check", "metrics", text=text_of(full_run(tmp_path))) == ""


def test_there_is_a_bound_to_the_series(tmp_path):
    """However long it trains, and whatever a log holds."""
    run = full_run(tmp_path)
    few = [line for line in text_of(run).splitlines() if not line.startswith("#")]
    append(run.events, *(step(NOW + number / 100, 100 + number, epoch=number / 7) for number in range(20_000)))
    append(run.events, *({"t": NOW, "kind": "bad_record", "key": key, "reason": f"{key}"} for key in range(1000)))
    append(run.events, *({"t": NOW, "kind": "interrupted", "reason": f"reason {key}"} for key in range(1000)))
    append(run.events, *(start(NOW, version=f"{key}") for key in range(1000)))
    append(run.events, *(stop(NOW, 1, reason=f"{key}") for key in range(1000)))
    append(run.samples, on_gpus(*map(gpu, range(16))))
    many = [line for line in text_of(run).splitlines() if not line.startswith("#")]
    assert len(few) - 2 <= len(many) <= len(few) < MOST_SERIES
    assert value("\n".join(many), 'trainer_interruptions_total{kind="other"}') == 1000
    append(run.samples, on_gpus(*map(gpu, range(5000))))
    assert len([line for line in text_of(run).splitlines() if line.startswith("trainer_gpu_up")]) == 64


def test_a_monitor_that_starts_later_counts_the_same(tmp_path):
    """Random lives of a run, read line by line (half lines too) and at once."""
    chance = random.Random(7)
    for life in range(20):
        lines = "".join(json.dumps(event) + "\n" for event in life_of(chance))
        run = write_run(tmp_path / f"{life}")
        metrics, before = RunMetrics(run), 0
        with open(run.events, "a") as log:
            for begin in range(0, len(lines), 997):
                log.write(lines[begin : begin + 997])
                log.flush()
                metrics.refresh(NOW)
                now = value(metrics.text().decode(), "trainer_steps_total") or 0
                assert now >= before
                before = now
        assert without_disk(metrics.text().decode()) == without_disk(text_of(run))


def without_disk(found: str) -> list[str]:
    return [line for line in found.splitlines() if "trainer_disk" not in line]


def life_of(chance):
    t = saved = 0
    for _ in range(chance.randrange(1, 6)):
        t += 100
        yield start(NOW - 9000 + t, resumed_step=saved)
        for number in range(saved + 10, saved + chance.randrange(20, 200), 10):
            t += 10
            yield step(NOW - 9000 + t, number)
            if chance.random() < 0.3:
                saved = number
                yield checkpoint(NOW - 9000 + t, number)
        yield chance.choice([
            stop(NOW - 9000 + t, saved, reason="signal"), {"t": NOW, "kind": "notice"},
            {"t": NOW - 9000 + t, "kind": "interrupted", "reason": "killed", "step": saved}, {"kind": "nonsense"},
        ])  # fmt: skip


def test_a_log_that_is_replaced_by_a_longer_one_is_read_anew(tmp_path):
    """As when the checkpoints' second place brings the run to another machine."""
    run = write_run(tmp_path / "r", [start(NOW - 100), *steps(NOW - 90, 10, 30)])
    metrics = RunMetrics(run)
    metrics.refresh(NOW)
    other = write_run(tmp_path / "other", finished(NOW - 900))
    os.replace(other.events, run.events)
    metrics.refresh(NOW)
    assert value(metrics.text().decode(), "trainer_steps_total") == 200


def test_the_last_steps_of_each_start_count(tmp_path):
    """Nothing but the stop tells of those after the last report."""
    events = [
        start(NOW - 90), *steps(NOW - 80, 10, 50), stop(NOW - 30, 57, "signal"),
        start(NOW - 20, resumed_step=57), *steps(NOW - 10, 60, 60), stop(NOW, 64),
    ]  # fmt: skip
    found = text(tmp_path, events)
    assert value(found, "trainer_steps_total") == 64
    assert value(found, "trainer_samples_total") == 64 * 32


@pytest.mark.parametrize("ends", [stop(NOW, 1, reason="signal"), stop(NOW, 1, reason="finished")])
def test_only_the_last_epochs_end_is_an_end(tmp_path, ends):
    found = text(tmp_path, [start(NOW - 10), step(NOW - 5, 1), ends])
    assert value(found, "trainer_finished") == (ends["reason"] == "finished")


def test_validations_are_told_apart_from_standstill(tmp_path):
    begun = [start(NOW - 90), *steps(NOW - 80, 10, 20), {"t": NOW - 60, "kind": "validating", "step": 20}]
    assert value(text(tmp_path, begun), "trainer_validating") == 1
    assert value(text(tmp_path, [*begun, checkpoint(NOW - 55, 20)]), "trainer_validating") == 1
    assert value(text(tmp_path, [*begun, validation(NOW - 50, 20)]), "trainer_validating") == 0


def test_who_trains_is_up(tmp_path):
    run = write_run(tmp_path / "r", [start(NOW)])
    with lease.hold(run):
        assert value(text_of(run), "trainer_up") == 1
    assert value(text_of(run), "trainer_up") == 0


@pytest.mark.parametrize(
    ("newest", "nvml", "first"),
    [
        (on_gpus(gpu(0), gpu(1)), 1, 1),
        (on_gpus(gpu(0, **dict.fromkeys(("util", "mem_used_mb", "mem_total_mb", "power_w", "temperature_c",
                                         "ecc_errors"))), gpu(1)), 1, 0),
        (sample(NOW, gpus_expected=2), 0, None), (sample(NOW, gpus=[], gpus_expected=0), None, None),
        (on_gpus(gpu(0), gpu(1), t=NOW - 60), None, None),
    ],
    ids=["healthy", "lost", "driver absent", "on the processor", "old news"],
)  # fmt: skip
def test_what_is_not_known_makes_no_series(tmp_path, newest, nvml, first):
    found = text(tmp_path, [start(NOW)], [newest])
    assert value(found, "trainer_nvml_up") == nvml
    assert value(found, 'trainer_gpu_up{gpu="00000000:00:1E.0"}') == first
    assert ("trainer_gpu_utilization_ratio{" in found) == (nvml == 1)


def test_one_measure_that_a_gpu_cannot_tell_leaves_the_others(tmp_path):
    found = text(tmp_path, [start(NOW)], [on_gpus(gpu(0, util=None, ecc_errors=None), gpu(1))])
    assert value(found, 'trainer_gpu_utilization_ratio{gpu="00000000:00:1E.0"}') is None
    assert value(found, 'trainer_gpu_ecc_errors_total{gpu="00000000:00:1E.0"}') is None
    assert value(found, 'trainer_gpu_up{gpu="00000000:00:1E.0"}') == 1
    assert value(found, 'trainer_gpu_utilization_ratio{gpu="00000000:01:1E.0"}') == 0.97


def test_gpus_keep_their_names_when_one_is_lost(tmp_path):
    whole = [gpu(place) for place in range(4)]
    moved = [whole[0], *({**entry, "index": place} for place, entry in enumerate(whole[2:], 1))]
    run = write_run(tmp_path / "r", [start(NOW)], [on_gpus(*whole), on_gpus(*moved, expected=4)])
    found = text_of(run)
    assert re.findall(r'trainer_gpu_up\{gpu="00000000:(..)', found) == ["00", "02", "03"]
    assert value(found, "trainer_gpus_expected") == 4


def test_failures_of_the_mirror_add_up_over_machines(tmp_path):
    """On one machine its count goes on from start to start; another one begins anew."""
    lives = [("a", 3), ("a", 5), ("b", 2), ("b", 4)]
    events = [
        event for place, (host, failures) in enumerate(lives) for event in (
            start(NOW - 90 + 10 * place, host=host),
            {"t": NOW - 85 + 10 * place, "kind": "mirror", "ok": False, "failures": failures},
        )
    ]  # fmt: skip
    run = write_run(tmp_path / "r", events)
    assert value(text_of(run), "trainer_mirror_failures_total") == 5 + 4
    run.mirror_state.write_text(json.dumps({"failures_total": 6}))
    assert value(text_of(run), "trainer_mirror_failures_total") == 5 + 6


def test_no_run_is_faster_than_its_roof(tmp_path):
    run = write_run(tmp_path / "r", [start(NOW)], [sample(NOW, images_per_second=900.0)])
    run.tuning.write_text(json.dumps({"roof_images_per_second": 800.0}))
    assert value(text_of(run), "trainer_attained_ratio") == 1


def test_a_run_that_moved_to_another_kind_of_machine_has_no_roof(tmp_path):
    run = write_run(tmp_path / "r", [start(NOW, host_kind="16 x B")], [sample(NOW, images_per_second=900.0)])
    run.tuning.write_text(json.dumps({"roof_images_per_second": 800.0, "host_kind": "64 x A"}))
    assert not any(name in text_of(run) for name in ("trainer_roof_images_per_second", "trainer_attained_ratio"))


def test_a_line_that_is_half_written_does_not_hide_the_one_before(tmp_path):
    run = write_run(tmp_path / "r", [start(NOW)], [on_gpus(gpu(0), images_per_second=700.0)])
    with open(run.samples, "a") as file:
        file.write(json.dumps(on_gpus(gpu(0)))[:90])
    assert value(text_of(run), "trainer_images_per_second") == 700


def test_a_run_that_has_nothing_yet_has_metrics(tmp_path):
    run = write_run(tmp_path / "r")
    run.events.unlink(), run.samples.unlink()
    found = text_of(run)
    assert value(found, "trainer_steps_total") == 0
    assert "trainer_last_step_timestamp_seconds" not in found


def test_a_log_full_of_nonsense_is_survived(tmp_path):
    nonsense = [None, "x", -1, 1e308, [], {}, True]
    kinds = ("start", "step", "checkpoint", "validation", "imds", "mirror", "stop", "interrupted", "bad_record")
    fields = ("t", "step", "samples", "images_per_second", "seconds", "errors", "failures", "batch_size", "reason",
              "loss", "epoch", "resumed_step", "resumed_samples", "top1", "data_wait_share")  # fmt: skip
    chance = random.Random(3)
    events = [
        {"t": NOW, "kind": chance.choice(kinds)} | {field: chance.choice(nonsense) for field in fields[:: 1 + turn % 3]}
        for turn in range(2000)
    ]  # fmt: skip
    samples = [{"t": NOW, "gpus": chance.choice([[1, None, {}], 5, {}]), "gpus_expected": 2}]
    run = write_run(tmp_path / "r", events, samples)
    for name, content in (("price.json", "[]"), ("mirror.json", "nonsense"), ("tuning.json", '{"a": ')):
        (run.directory / name).write_text(content)
    assert families(text_of(run))


def test_a_checkpoint_that_no_event_tells_of_counts(tmp_path):
    run = write_run(tmp_path / "r", [start(NOW)])
    (run.checkpoints / "00000010-0").mkdir(parents=True)
    os.utime(run.checkpoints / "00000010-0", (NOW - 30, NOW - 30))
    assert value(text_of(run), "trainer_last_checkpoint_timestamp_seconds") == NOW - 30


def test_money_goes_on_until_the_machine_is_given_back(tmp_path):
    run = full_run(tmp_path)
    append(run.events, start(NOW - 2, resumed_step=90, host=socket.gethostname()))
    append(run.events, step(NOW - 1, 100, seconds_left=3600.0))
    assert value(text_of(run), "trainer_cost_forecast_usd") == pytest.approx(14.5)
    append(run.events, stop(NOW, 200))
    assert value(text_of(run), "trainer_cost_forecast_usd") == pytest.approx(13)
    assert value(text_of(run, NOW + 3600), "trainer_cost_usd_total") == pytest.approx(14.5)


def test_money_of_a_machine_that_is_elsewhere_stops_when_it_was_last_heard_of(tmp_path):
    run = full_run(tmp_path)
    assert value(text_of(run, NOW + 3600), "trainer_cost_usd_total") == pytest.approx(13)
    with lease.hold(run):
        assert value(text_of(run, NOW + 3600), "trainer_cost_usd_total") == pytest.approx(14.5)


def test_a_second_look_reads_only_what_is_new(tmp_path):
    """By processor time against the first look, in this very process."""
    run = write_run(tmp_path / "r")
    line = json.dumps(step(NOW, 10)) + "\n"
    run.events.write_text(json.dumps(start(NOW)) + "\n" + line * 50_000)
    metrics, seconds = RunMetrics(run), []
    for _ in range(2):
        began = time.process_time()
        metrics.refresh(NOW)
        seconds.append(time.process_time() - began)
    assert seconds[1] < seconds[0] / 10
