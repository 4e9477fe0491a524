"""Training on a machine that is taken away, or that ends it without a word."""

import json
import os
import signal
import subprocess

import training
from training import of_kind, until

from trainer.observe import events
from trainer.observe.report import write_report
from trainer.run import Run
from trainer.spot.practice import Practice, serving


def make_run(recipe: dict, **changes) -> Run:
    """No step of it is a validation's or a due checkpoint's."""
    return training.write_config(
        recipe | {"data_val": None, "epochs": 100_000, "display_steps": 1, "checkpoint_interval": 1000} | changes
    )


def start(run: Run, *options: str) -> subprocess.Popen:
    return training.start(run, *options, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def test_a_recommendation_saves_and_goes_on_and_a_notice_saves_and_ends(tiny_recipe):
    with serving(Practice()) as practice:
        run = make_run(tiny_recipe, imds_url=practice.url)
        with start(run) as process:
            until(lambda: of_kind(run, "step"), process)
            assert not of_kind(run, "checkpoint")
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
    assert [event["step"] for event in of_kind(run, "checkpoint")] == [saved, stop["step"]]
    assert stop["step"] == of_kind(run, "step")[-1]["step"]
    assert 0 <= stop["notice_to_durable_seconds"] < 30
    kinds = [event["kind"] for event in events.read(run.events)]
    assert kinds.index("rebalance") < kinds.index("checkpoint") < kinds.index("notice") < kinds.index("stop")
    assert kinds[-1] == "stop"
    assert not of_kind(run, "imds")


def test_a_crash_is_told_by_the_report_and_the_next_start_which_a_second_signal_ends_at_once(tiny_recipe):
    run = make_run(tiny_recipe)
    with start(run) as process:
        until(lambda: of_kind(run, "step"), process)
        os.kill(process.pid, signal.SIGABRT)
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGABRT
    untold = write_report(run)
    assert untold["state"] == "interrupted"
    assert "SIGABRT" in untold["interrupted_by"]
    steps = len(of_kind(run, "step"))
    with start(run) as process:
        until(lambda: len(of_kind(run, "step")) > steps, process)
        (told,) = of_kind(run, "interrupted")
        assert (told["reason"], told["signal"]) == ("crash", "SIGABRT")
        assert "Fatal Python error: Aborted" in run.crash_before.read_text()
        process.send_signal(signal.SIGSTOP)  # both signals come in the same step
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        said = process.communicate(timeout=120)[1]
        assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert "the training before ended without a word: it crashed (SIGABRT)" in said
    assert not of_kind(run, "stop")
    assert "it was killed" in write_report(run)["interrupted_by"]
    assert json.loads(run.report_json.read_text())["state"] == "interrupted"
