"""The alerts, by promtool's unit tests: each fires when its trouble is there, and all are silent in a healthy run."""

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_tools import promtool

PROJECT = Path(__file__).resolve().parents[2]
TEMPLATE = PROJECT / "roles/prometheus/templates/trainer-alerts.yml.j2"
RULES = TEMPLATE.read_text().replace("[[ prometheus_grafana_url ]]", "http://grafana")
ALERTS = {rule["alert"]: rule for rule in yaml.safe_load(RULES)["groups"][0]["rules"] if "alert" in rule}
MINUTES = 240
WHO = 'job="trainer",instance="10.0.0.5:8470"'


def series(**changes):
    """Of a healthy run that trains two GPUs, saves once a minute and validates for two minutes each hour.

    One value a minute, in promtool's words; None leaves a series out.
    """
    steady, minute = "{}+0x240".format, "0+60x240"
    healthy = {
        "up": steady(1), "trainer_up": steady(1), "trainer_finished": steady(0),
        "trainer_start_timestamp_seconds": steady(0), "trainer_validating": " ".join(["0x57 1x1"] * 4),
        "trainer_data_wait_seconds_total": "0+11x240",
        "trainer_step_duration_seconds_sum": minute, "trainer_step_duration_seconds_count": minute,
        "trainer_last_step_timestamp_seconds": minute, "trainer_last_sample_timestamp_seconds": minute,
        "trainer_attained_ratio": steady(0.97), "trainer_last_checkpoint_timestamp_seconds": minute,
        "trainer_checkpoint_interval_seconds": steady(60), "trainer_checkpoint_failures_total": steady(0),
        "trainer_checkpoint_duration_seconds_sum": "0+2x240", "trainer_checkpoint_duration_seconds_count": "0+1x240",
        "trainer_gpus_expected": steady(2), "trainer_gpus_answering": steady(2), "trainer_nvml_up": steady(1),
        'trainer_restarts_total{reason="signal"}': "0x100 9x140",
        'trainer_restarts_total{reason="crash"}': "0x100 2x140",
        'trainer_interruptions_total{kind="notice"}': steady(0),
        'trainer_interruptions_total{kind="crash"}': "0x100 1x140",
        "trainer_disk_free_bytes": steady(50e9), "trainer_disk_size_bytes": steady(100e9),
        "trainer_cost_usd_total": "0+0.1x240",
        "trainer_cost_forecast_usd": steady(50), "trainer_budget_usd": steady(100),
    }  # fmt: skip
    for gpu in ("0", "1"):
        healthy |= {
            f'trainer_gpu_up{{gpu="{gpu}"}}': steady(1), f'trainer_gpu_temperature_celsius{{gpu="{gpu}"}}': steady(84),
            f'trainer_gpu_ecc_errors_total{{gpu="{gpu}"}}': steady(0),
            f'trainer_gpu_utilization_ratio{{gpu="{gpu}"}}': steady(1),
        }  # fmt: skip
    return {name: values for name, values in (healthy | changes).items() if values is not None}


def test_file(folder, changes, tests):
    (folder / "rules.yml").write_text(RULES)
    inputs = [
        {"series": name.replace("{", f"{{{WHO},") if "{" in name else f"{name}{{{WHO}}}", "values": values}
        for name, values in series(**changes).items()
    ]  # fmt: skip
    test = {"interval": "1m", "input_series": inputs, **tests}
    path = folder / "test.yml"
    path.write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}))
    return str(path)


test_file.__test__ = False


def judged(folder, changes, minutes, firing, fails=False):
    """promtool's word on whether exactly these alerts fire at these times."""
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)]
    expr = 'count by (alertname) (count by (alertname, instance) (ALERTS{alertstate="firing"}))'
    tests = [{"expr": expr, "eval_time": f"{minute}m", "exp_samples": expected} for minute in minutes]
    return promtool("test", "rules", test_file(folder, changes, {"promql_expr_test": tests}), fails=fails)


OLD = "0+60x60 3600x180"  # stands still from the first hour on
# As Prometheus marks what a scrape no longer has.
GPU_LOST = {
    'trainer_gpu_up{gpu="1"}': "1x60 0x180", 'trainer_gpu_temperature_celsius{gpu="1"}': "84x60 stale",
    'trainer_gpu_ecc_errors_total{gpu="1"}': "0x60 stale", 'trainer_gpu_utilization_ratio{gpu="1"}': "1x60 stale",
    "trainer_gpus_answering": "2x60 1x180",
}  # fmt: skip
# All that tells of the machine's GPUs.
OF_GPUS = [name for name in series() if re.search("gpu|nvml", name)]


def ending(names, minute):
    """These series as they are in a healthy run, until they are no more."""
    healthy = series()
    return {name: f"{re.match('[0-9.]+', healthy[name])[0]}x{minute} stale" for name in names}


TROUBLE = {
    "the trainer is gone": ("TrainerDown", {"trainer_up": "1x60 0x180", "trainer_nvml_up": "1x60"}),
    "the machine is gone": ("TrainerDown", dict.fromkeys(series()) | {"up": "1x60 0x180"}),
    "no step for long, at 100 %": ("TrainerHung", {"trainer_last_step_timestamp_seconds": OLD}),
    "no first step": ("TrainerHung", {
        "trainer_last_step_timestamp_seconds": None, "trainer_step_duration_seconds_count": "0x240",
        "trainer_step_duration_seconds_sum": "0x240"}),
    "a validation without end": ("TrainerHung", {
        "trainer_last_step_timestamp_seconds": "0+60x30 1800x210", "trainer_validating": "0x30 1x210"}),
    "waits for data": ("DataStarved", {"trainer_data_wait_seconds_total": "0+13x240"}),
    "slower than it can": ("BelowRoof", {"trainer_attained_ratio": "0.97x60 0.5x180"}),
    "no checkpoint any more": ("CheckpointStale", {"trainer_last_checkpoint_timestamp_seconds": OLD}),
    "never a checkpoint": ("CheckpointStale", {
        "trainer_last_checkpoint_timestamp_seconds": None, "trainer_checkpoint_interval_seconds": None}),
    "slow checkpoints": ("CheckpointSlow", {"trainer_checkpoint_duration_seconds_sum": "0+90x240"}),
    "a GPU that does not answer": ("GpuLost", GPU_LOST),
    "a GPU that is not even counted": ("GpuLost", GPU_LOST | {'trainer_gpu_up{gpu="1"}': "1x60 stale"}),
    "a GPU that never was": ("GpuLost", {"trainer_gpus_expected": "3+0x240"}),
    "no GPU any more": ("GpuLost", ending(OF_GPUS, 60) | {
        "trainer_gpus_expected": "2+0x240", "trainer_gpus_answering": "2x60 0x180", "trainer_nvml_up": "1+0x240"}),
    "no driver": ("GpuLost", ending(OF_GPUS, 60) | {
        "trainer_gpus_expected": "2+0x240", "trainer_nvml_up": "1x60 0x180"}),
    "heat": ("GpuHot", {'trainer_gpu_temperature_celsius{gpu="0"}': "66x60 90x180"}),
    "memory errors": ("EccErrors", {'trainer_gpu_ecc_errors_total{gpu="0"}': "0x90 2x150"}),
    "memory errors before the first look": ("EccErrors", {'trainer_gpu_ecc_errors_total{gpu="0"}': "2+0x240"}),
    "the same crash each time": ("TrainerRestarting", {
        'trainer_restarts_total{reason="crash"}': "0x60 1x10 2x10 3x160"}),
    "a notice": ("SpotNotice", {'trainer_interruptions_total{kind="notice"}': "0x115 1x125"}),
    "no space": ("DiskFull", {"trainer_disk_free_bytes": "50000000000x60 4000000000x180"}),
    "a checkpoint that could not be written": ("DiskFull", {"trainer_checkpoint_failures_total": "0x110 1x130"}),
    "spent too much": ("CostAboveBudget", {"trainer_cost_usd_total": "0+2x240", "trainer_cost_forecast_usd": None}),
    "will spend too much": ("CostAboveBudget", {"trainer_cost_forecast_usd": "120+0x240"}),
    "nobody samples": ("MetricsStale", {"trainer_last_sample_timestamp_seconds": OLD}),
    "never a sample": ("MetricsStale", {"trainer_last_sample_timestamp_seconds": None}),
}  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLE)
def test_each_trouble_has_its_alert_and_no_other(tmp_path, trouble):
    alert, changes = TROUBLE[trouble]
    judged(tmp_path, changes, [117], [alert])


# A GPU and the trainer with it: the machine is looked at for ten minutes more.
TAKEN_ALONG = ending(OF_GPUS, 70) | {
    'trainer_gpu_up{gpu="1"}': "1x59 0x11 stale", "trainer_gpus_answering": "2x59 1x11 stale",
    'trainer_gpu_ecc_errors_total{gpu="1"}': "0x59 2x0 stale", "trainer_up": "1x59 0x180",
    "trainer_last_step_timestamp_seconds": OLD, "trainer_last_sample_timestamp_seconds": OLD,
    "trainer_last_checkpoint_timestamp_seconds": OLD, "trainer_attained_ratio": "0.97x60 stale",
}  # fmt: skip


@pytest.mark.parametrize(
    ("minute", "firing"),
    [(59, []), (62, ["EccErrors", "GpuLost"]), (72, ["EccErrors", "GpuLost", "TrainerDown"]),
     (90, ["EccErrors", "TrainerDown"])],
)  # fmt: skip
def test_a_gpu_that_takes_the_trainer_along_is_told(tmp_path, minute, firing):
    judged(tmp_path, TAKEN_ALONG, [minute], firing)


def test_each_alert_has_its_trouble():
    assert {alert for alert, _ in TROUBLE.values()} == set(ALERTS)


HEALTHY = {
    "it trains": {}, "it is finished": {
        "trainer_up": "1x60 0x180", "trainer_finished": "0x60 1x180", "trainer_last_step_timestamp_seconds": OLD,
        "trainer_last_checkpoint_timestamp_seconds": OLD, "trainer_last_sample_timestamp_seconds": OLD,
        "trainer_attained_ratio": "1x60 stale", **ending(OF_GPUS, 70),
    },
    "it is finished, and its machine is off": {
        name: f"{values.split('x')[0]}x60 stale" for name, values in series().items()
    } | {"up": "1x60 0x180", "trainer_up": "1x50 0x10 stale", "trainer_finished": "0x50 1x10 stale"},
    "on the processor, not rented, not tuned": {name: None for name in series() if re.search(
        "gpu|nvml|cost|budget|attained", name)},
    "it goes on after an hour's break": {
        "trainer_start_timestamp_seconds": "0x99 5940x141",
        "trainer_last_step_timestamp_seconds": "0+60x39 2340x59 5940+60x141",
        "trainer_last_checkpoint_timestamp_seconds": "0+60x39 2340x65 6300+60x135",
        "trainer_last_sample_timestamp_seconds": "0+60x39 2340x59 5940+60x141",
        **dict.fromkeys(("up", "trainer_up"), "1x39 stale _x59 1x141"),
    },
    "steps of four minutes": {
        "trainer_step_duration_seconds_sum": "0+60x240", "trainer_step_duration_seconds_count": "0+0.25x240",
        "trainer_last_step_timestamp_seconds": " ".join(f"{240 * number}x3" for number in range(60)),
    },
    "earlier notices that another machine tells of": {'trainer_interruptions_total{kind="notice"}': "_x100 3x140"},
}  # fmt: skip


@pytest.mark.parametrize("life", HEALTHY)
def test_a_healthy_run_is_silent(tmp_path, life):
    judged(tmp_path, HEALTHY[life], range(1, MINUTES, 5), [])


def test_a_wrong_expectation_is_seen(tmp_path):
    judged(tmp_path, {}, [120], ["GpuHot"], fails=True)


@pytest.mark.parametrize("alert", ALERTS)
def test_each_says_what_is_wrong_what_to_do_first_and_where_to_look(alert):
    said = ALERTS[alert]["annotations"]
    assert set(said) == {"summary", "action", "dashboard"}
    assert "{{ $labels.instance }}" in said["summary"]
    assert said["dashboard"] == "http://grafana/d/trainer-run?var-instance={{ $labels.instance }}"
    assert ALERTS[alert]["labels"]["severity"] in ("critical", "warning")
    assert f"| {alert} |" in (PROJECT / "docs/alerts.md").read_text()


def test_the_words_are_filled_in(tmp_path):
    labels = {"job": "trainer", "instance": "10.0.0.5:8470", "severity": "warning"}
    said = {
        "summary": "10.0.0.5:8470: the run costs, or will have cost at its end, $120.00: more than its budget.",
        "action": ALERTS["CostAboveBudget"]["annotations"]["action"],
        "dashboard": "http://grafana/d/trainer-run?var-instance=10.0.0.5:8470",
    }

    firing = [{"exp_labels": labels, "exp_annotations": said}]
    tests = [{"eval_time": "120m", "alertname": "CostAboveBudget", "exp_alerts": firing}]
    changes = {"trainer_cost_forecast_usd": "120+0x240"}
    promtool("test", "rules", test_file(tmp_path, changes, {"alert_rule_test": tests}))


def test_no_alert_asks_the_utilisation():
    assert "utilization" not in json.dumps(yaml.safe_load(RULES))
