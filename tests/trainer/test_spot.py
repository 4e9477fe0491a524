"""Training on a machine that is taken away, or that ends it without a word."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tomli_w

from trainer.observe import events
from trainer.run import Run
from trainer.spot.practice import Practice, serving


@pytest.fixture
def run(tiny_recipe):
    run = Run(Path(tiny_recipe["run_directory"]))
    run.directory.mkdir(parents=True)
    return run


def start(run: Run, recipe: dict, *options: str, **changes) -> subprocess.Popen:
    values = recipe | {"epochs": 1000, "display_steps": 1, "checkpoint_interval": 1000} | changes
    run.config.write_text(tomli_w.dumps(values))
    command = [sys.executable, "-m", "trainer", "train", "--config", str(run.config), *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def of_kind(run: Run, kind: str) -> list[dict]:
    return [event for event in events.read(run.events) if event["kind"] == kind]


def until(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_recommendation_saves_and_goes_on_and_a_notice_saves_and_ends(run, tiny_recipe):
    with serving(Practice()) as practice, start(run, tiny_recipe, imds_url=practice.url) as process:
        practice.recommend_rebalance()
        until(lambda: of_kind(run, "checkpoint"), process)
        saved = of_kind(run, "checkpoint")[0]["step"]
        until(lambda: of_kind(run, "step")[-1]["step"] > saved, process)
        practice.give_notice()
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0
    assert "this machine will be taken away (terminate at " in said
    assert "this machine may be taken away soon" in said
    assert "stopped at step" in said
    (stop,) = of_kind(run, "stop")
    assert stop["reason"] == "notice"
    assert stop["step"] == of_kind(run, "checkpoint")[-1]["step"] == of_kind(run, "step")[-1]["step"]
    assert 0 <= stop["notice_to_durable_seconds"] < 30
    kinds = [event["kind"] for event in events.read(run.events)]
    assert kinds.index("rebalance") < kinds.index("checkpoint") < kinds.index("notice") < kinds.index("stop")
    assert kinds[-1] == "stop"
    assert not of_kind(run, "imds")


def test_a_crash_is_told_by_the_next_start_and_the_report(run, tiny_recipe):
    with start(run, tiny_recipe) as process:
        until(lambda: of_kind(run, "step"), process)
        os.kill(process.pid, signal.SIGABRT)
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGABRT
    report = [sys.executable, "-m", "trainer", "report", "--run", run.directory, "--json"]
    untold = json.loads(subprocess.run(report, check=True, capture_output=True).stdout)
    assert untold["state"] == "interrupted"
    assert "SIGABRT" in untold["interrupted_by"]
    with start(run, tiny_recipe, "--until-step", "1") as process:
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0
    assert "the training before ended without a word: it crashed (SIGABRT)" in said
    (told,) = of_kind(run, "interrupted")
    assert (told["reason"], told["signal"]) == ("crash", "SIGABRT")
    assert "Fatal Python error: Aborted" in run.crash_before.read_text()
    assert not run.crash.exists()
    assert json.loads(run.report_json.read_text())["interrupted_by"] == untold["interrupted_by"]


def test_the_second_signal_ends_at_once_and_is_told(run, tiny_recipe):
    with start(run, tiny_recipe) as process:
        until(lambda: of_kind(run, "step"), process)
        process.send_signal(signal.SIGSTOP)  # both signals come in the same step
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=120)
        assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert not of_kind(run, "stop")
    with start(run, tiny_recipe, "--until-step", "1") as process:
        assert "ended without a word: it was killed" in process.communicate(timeout=120)[1]
