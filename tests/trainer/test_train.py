"""Training for real, on tiny data: it learns, it stops, it continues, it refuses."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from tiny_data import write_records
from training import configuration, needs_bfloat16, of_kind, start, until, write_config

from trainer.config import load
from trainer.learn.checkpoint import read_state
from trainer.observe import events
from trainer.run import Run

COMMAND = [sys.executable, "-m", "trainer"]


def train(run: Run, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*COMMAND, "train", "--config", str(run.config), *options], capture_output=True, text=True, timeout=120,
        check=False,
    )


def weights(run: Run) -> dict:
    import mxnet as mx

    name = run.latest.read_text().strip()
    arrays = mx.nd.load(str(run.checkpoints / name / "weights.params"))
    return {key: array.asnumpy() for key, array in arrays.items()}


def assert_same_weights(one: Run, other: Run) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name in first:
        assert np.array_equal(first[name], second[name]), name


def test_it_learns_and_leaves_what_a_run_promises(tiny_recipe):
    run = write_config(tiny_recipe, epochs=4)
    result = train(run, "--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["finished"] is True
    assert report["stop_reason"] == "finished"
    assert report["top1"] > 0.6  # chance is 0.25
    assert report["steps"] == 40
    assert report["samples_seen"] == 640
    assert report["epochs"] == 4
    assert report["images_per_second"] > 0
    validations = of_kind(run, "validation")
    assert [event["records"] for event in validations] == [42] * 4
    assert validations[-1]["loss"] < validations[0]["loss"]
    assert np.sum(validations[-1]["confusion"]) == 42
    for path in (run.report_html, run.report_json, run.latest, run.directory / "model-symbol.json",
                 run.directory / "model-0000.params", run.model_card):
        assert path.is_file(), path


def test_a_finished_run_is_not_trained_again(tiny_recipe):
    run = write_config(tiny_recipe, epochs=1)
    assert train(run).returncode == 0
    logged = run.events.read_bytes()
    run.report_json.unlink()
    again = train(run)
    assert again.returncode == 0
    assert "top-1" in again.stdout
    assert run.events.read_bytes() == logged
    changed = train(write_config(tiny_recipe, epochs=1, batch_size=32))
    assert changed.returncode == 78
    assert "the run is finished, so its configuration must stay as it is" in changed.stderr
    assert "got batch_size = 32 (was 16)" in changed.stderr
    checked = subprocess.run([*COMMAND, "train", "--check", str(run.config)], capture_output=True, check=False)
    assert checked.returncode == 78
    # What the result does not depend on may change.
    assert train(write_config(tiny_recipe, epochs=1, decode_threads=1, imds_url="http://127.0.0.1:9")).returncode == 0
    assert run.events.read_bytes() == logged


def test_a_run_that_another_host_finished_is_finished_here_too(tiny_recipe, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    recipe = tiny_recipe | {"epochs": 1, "checkpoint_mirror": f"file://{place}"}
    assert train(write_config(recipe)).returncode == 0
    here = write_config(recipe, run_directory=str(tmp_path / "here" / "tiny"), epochs=2)
    refused = train(here)
    assert refused.returncode == 78
    assert "got epochs = 2.0 (was 1.0)" in refused.stderr
    assert train(write_config(recipe, run_directory=str(here.directory))).returncode == 0
    assert here.model_card.is_file()
    assert [event["step"] for event in of_kind(here, "stop")] == [10, 10]


def test_the_configuration_in_the_run_is_replaced_whole_and_only_when_it_differs(tiny_recipe, tmp_path):
    run = write_config(tiny_recipe)
    outside = tmp_path / "trainer.toml"
    outside.write_text(run.config.read_text())
    options = ("--config", str(outside), "--until-step", "0")
    numbers = []
    for _ in range(3):
        with open(run.config) as before:
            text = before.read()
            subprocess.run([*COMMAND, "train", *options], check=True, capture_output=True, timeout=120)
            numbers.append(run.config.stat().st_ino)
            before.seek(0)
            assert before.read() == text  # whoever has it open keeps it whole
    assert numbers[0] == numbers[1] == numbers[2]
    assert load(run.config) == load(outside)


@pytest.mark.parametrize("devices", [["cpu(0)"], ["cpu(0)", "cpu(1)"]])
def test_a_stopped_run_continues_to_the_same_weights(tiny_recipe, tmp_path, devices):
    recipe = tiny_recipe | {"devices": devices, "augmentation": "pad", "epochs": 3}
    straight = write_config(recipe, run_directory=str(tmp_path / "run" / "straight"))
    assert train(straight).returncode == 0
    interrupted = write_config(recipe)
    stop_after_steps(interrupted, 7)
    assert of_kind(interrupted, "stop")[-1]["reason"] == "signal"
    assert of_kind(interrupted, "checkpoint")
    assert not json.loads(interrupted.report_json.read_text())["finished"]
    result = train(interrupted)
    assert result.returncode == 0, result.stderr
    assert "continuing at step" in result.stderr
    assert_same_weights(straight, interrupted)


def stop_after_steps(run: Run, steps: int) -> None:
    """Starts training with a progress event a step, and asks it to stop at once (a command takes too long to start)."""
    text = run.config.read_text()
    run.config.write_text("display_steps = 1\n" + text.replace("display_steps = 1\n", ""))
    with start(run, stderr=subprocess.PIPE) as process:
        until(lambda: any(event["step"] >= steps for event in of_kind(run, "step")), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    run.config.write_text(text)


def test_a_run_can_be_trained_until_a_step(tiny_recipe):
    run = write_config(tiny_recipe)
    for _ in range(2):
        result = train(run, "--until-step", "7")
        assert result.returncode == 0, result.stderr
    assert "stopped at step 7: the step that was asked for is done" in result.stderr
    assert [(event["step"], event["reason"]) for event in of_kind(run, "stop")] == [(7, "until_step")] * 2
    assert json.loads(run.report_json.read_text())["state"] == "stopped"


def test_sigint_is_a_stop_request_too(tiny_recipe):
    run = write_config(tiny_recipe, epochs=200, display_steps=1)
    with start(run, stderr=subprocess.PIPE) as process:
        until(lambda: of_kind(run, "step"), process)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert run.latest.is_file()


def test_a_killed_run_continues_from_its_last_checkpoint(tiny_recipe):
    run = write_config(tiny_recipe, epochs=200, display_steps=1, checkpoint_interval=0.3)
    with start(run, stderr=subprocess.PIPE) as process:
        until(lambda: of_kind(run, "checkpoint"), process)
        process.kill()
    saved = max(event["step"] for event in of_kind(run, "checkpoint"))
    result = train(write_config(tiny_recipe, epochs=200, display_steps=1, num_classes=4, num_layers=20))
    assert result.returncode == 78
    assert "num_layers must be 8 to continue" in result.stderr
    finish = write_config(tiny_recipe, epochs=saved // 10 + 2)
    assert train(finish).returncode == 0
    assert of_kind(run, "start")[-1]["resumed_step"] == saved
    assert of_kind(run, "start")[-1]["changed"]["epochs"][0] == 200


def test_a_refused_configuration_leaves_the_one_before(tiny_recipe, tmp_path):
    run = write_config(tiny_recipe)
    assert train(run, "--until-step", "1").returncode == 0
    before = run.config.read_text()
    other = tmp_path / "other.toml"
    other.write_text(before.replace("num_layers = 8", "num_layers = 20"))
    command = [*COMMAND, "train", "--config", str(other)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 78
    assert "num_layers must be 8 to continue" in result.stderr
    assert run.config.read_text() == before


def test_a_finished_log_that_lost_its_start_is_finished(tiny_recipe):
    from trainer.commands.train import _finished

    run = write_config(tiny_recipe)
    events.event_writer(run.events)("stop", reason="finished", step=1)
    assert _finished(run, configuration(tiny_recipe))


def test_the_run_is_held_before_mxnet_is_loaded(tiny_recipe):
    """`stop` finds a trainer by its lease. Only MXNet knows that there is no such network."""
    run = write_config(tiny_recipe, network="resnet51", num_layers=None)
    assert train(run).returncode == 78
    assert run.lease.exists()


def test_signals_are_heard_before_the_heavy_imports():
    program = "import trainer.__main__, sys; sys.exit('typer' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_loss_that_is_no_number_ends_the_run_with_what_to_change(tiny_recipe):
    run = write_config(tiny_recipe, base_learning_rate=1e12, warmup_epochs=0, optimizer="sgd", display_steps=1)
    result = train(run)
    assert result.returncode == 70, result.stderr
    assert "e+10, batch 16, warm-up 0 epochs" in result.stderr
    assert of_kind(run, "stop")[-1]["reason"] == "non_finite_loss"
    assert not run.latest.exists()
    assert json.loads(run.report_json.read_text())["stop_reason"] == "non_finite_loss"


def test_a_loss_that_turns_bad_stops_within_three_steps_and_keeps_the_good_checkpoint(tiny_recipe):
    run = write_config(tiny_recipe, epochs=4, display_steps=1, checkpoint_interval=0.001)
    stop_after_steps(run, 5)
    kept = run.latest.read_text()
    write_config(
        tiny_recipe, epochs=4, base_learning_rate=1e30, warmup_epochs=0, checkpoint_interval=0.001,
        checkpoints_kept=100,
    )
    result = train(run)
    assert result.returncode == 70, result.stderr
    bad_step = int(re.search(r"loss is \S+ (?:at|after) step (\d+)", result.stderr)[1])
    assert of_kind(run, "stop")[-1]["step"] - bad_step <= 3
    # Saved after the update that broke it, before its own loss was known: such a checkpoint must not be kept.
    assert all(read_state(path)["progress"]["step"] < bad_step for path in run.checkpoints.iterdir())
    assert kept.strip() in {path.name for path in run.checkpoints.iterdir()}
    assert read_state(run.checkpoints / run.latest.read_text().strip())["progress"]["step"] < bad_step


def test_outputs_that_are_no_numbers_are_no_hits():
    from trainer.learn.validate import _Tally

    tally = _Tally(num_classes=3, top_k=2)
    tally.add(np.full((2, 3), np.nan, np.float32), np.array([0, 1]))
    tally.add(np.array([[0, 1, 2], [1, 1, 1]], np.float32), np.array([2, 0]))
    result = tally.result()
    assert (result["top1"], result["top2"], result["top5"]) == (0.25, 0.25, 0.5)
    assert np.isnan(result["loss"])


def test_a_second_stop_waits_and_ends_nothing(tiny_recipe):
    run = write_config(tiny_recipe, epochs=500, display_steps=1)
    stop = [*COMMAND, "stop", "--run", str(run.directory)]
    with start(run, stderr=subprocess.PIPE) as process:
        until(lambda: of_kind(run, "step"), process)
        both = [subprocess.Popen(stop, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert process.wait(timeout=60) == 0
        said = [one.communicate(timeout=60)[0] for one in both]
    assert all("its checkpoint is on disk" in text or "is not being trained" in text for text in said)
    assert of_kind(run, "checkpoint")[-1]["step"] == of_kind(run, "stop")[-1]["step"]


def test_training_without_data_is_refused_before_anything_exists(tmp_path):
    result = subprocess.run(
        [*COMMAND, "train", "--run", str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 78
    assert "--data-train must be the path of a .rec file" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"data_train": "/nowhere/train.rec"}, 66, "/nowhere/train.rec"),
        ({"batch_size": 320}, 78, "batch_size must be at most the images of an epoch (160"),
        ({"num_classes": 2}, 66, "label"),
        ({"devices": ["gpu(0)"]}, 69, "devices must be GPUs of this machine, which has 0"),
        ({"batch_size": 0, "momentum": 7}, 78, "config.toml: momentum must be"),
        ({"network": "resnet51", "num_layers": None}, 78, "network must be"),
    ],
)
def test_bad_input_is_told_before_anything_starts(tiny_recipe, changes, code, message):
    run = write_config(tiny_recipe, **changes)
    result = train(run)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not run.checkpoints.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "resnet51", "num_layers": None}, "network must be"),
        ({"network": "inceptionv3", "num_layers": None}, "image_shape must be"),
    ],
)
def test_check_knows_the_networks(tiny_recipe, changes, message):
    run = write_config(tiny_recipe, **changes)
    result = subprocess.run(
        [*COMMAND, "train", "--check", str(run.config)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 78
    assert f"{run.config}: {message}" in result.stderr


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_over_in_silence(tiny_recipe):
    run = write_config(tiny_recipe, epochs=4)
    stop_after_steps(run, 5)
    for path in run.checkpoints.glob("*/weights.params"):
        path.write_bytes(path.read_bytes()[:-1])
    result = train(run)
    assert result.returncode == 66, result.stderr
    assert "checksums differ" in result.stderr
    assert "must hold a whole checkpoint; remove it to train from the start" in result.stderr


def test_two_trainers_never_share_a_run(tiny_recipe):
    run = write_config(tiny_recipe, epochs=500, display_steps=1)
    with start(run, stderr=subprocess.PIPE) as process:
        until(lambda: of_kind(run, "step"), process)
        second = train(run)
        assert second.returncode == 78
        assert f"process {process.pid} on " in second.stderr
        subprocess.run([*COMMAND, "stop", "--run", str(run.directory)], check=True, timeout=60)


def test_the_command_line_of_the_article(tiny_data, tmp_path):
    prefix = tmp_path / "model"
    options = [
        "--network", "resnet", "--num-layers", "8", "--data-train", str(tiny_data["train"]), "--data-val",
        str(tiny_data["val"]), "--batch-size", "16", "--data-nthreads", "2", "--image-shape", "3,28,28",
        "--num-classes", "4", "--num-epochs", "2", "--lr", "0.05", "--lr-step-epochs", "1", "--lr-factor", "0.5",
        "--optimizer", "sgd", "--mom", "0.9", "--wd", "0.0001", "--dtype", "float32", "--kv-store", "device",
        "--disp-batches", "2", "--top-k", "3", "--num-examples", "96", "--model-prefix", str(prefix), "--run",
        str(tmp_path / "run" / "seed"), "--json",
    ]
    result = subprocess.run([*COMMAND, "train", *options], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    run = Run(tmp_path / "run" / "seed")
    steps = of_kind(run, "step")
    assert [event["step"] for event in steps] == [2, 4, 6, 8, 10, 12]
    assert {event["learning_rate"] for event in steps} == {0.05, 0.025}
    assert "top3" in of_kind(run, "validation")[-1]
    assert sorted(path.name for path in tmp_path.glob("model*")) == [
        "model-0001.params", "model-0002.params", "model-symbol.json"
    ]
    later = [*options, "--run", str(tmp_path / "run" / "later"), "--load-epoch", "1"]
    result = subprocess.run([*COMMAND, "train", *later], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert [event["epoch"] for event in of_kind(Run(tmp_path / "run" / "later"), "validation")] == [2.0]


def test_a_bad_record_in_training_is_replaced_and_told(tiny_recipe, tmp_path):
    path = write_records(tmp_path / "train.rec", 400)
    with open(path, "r+b") as file:
        file.seek(8 + 24)
        file.write(b"\x00" * 200)
    run = write_config(tiny_recipe, data_train=str(path), epochs=1)
    result = train(run)
    assert result.returncode == 0, result.stderr
    assert [event["key"] for event in of_kind(run, "bad_record")] == [0]
    strict = train(write_config(tiny_recipe, data_train=str(path), epochs=1, bad_record_share=0, run_directory=str(
        tmp_path / "strict"
    )))
    assert strict.returncode == 66, strict.stderr
    assert "1 of 400 records are damaged, more than the 0 allowed" in strict.stderr


@pytest.mark.parametrize("what", ["--test-io", "--benchmark"])
def test_each_half_is_measured_alone(tiny_data, what):
    program = (
        "import trainer.learn.measure as m, trainer.__main__ as t, sys; m.MEASURE_SECONDS = 0.5; sys.exit(t.main())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "train", "--num-layers", "8", "--image-shape", "3,28,28", "--num-classes", "4",
         "--batch-size", "16", "--data-train", str(tiny_data["train"]), what, "1", "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["images_per_second"] > 0


def test_check_validates_a_file_and_starts_nothing(tiny_recipe):
    run = write_config(tiny_recipe)
    assert subprocess.run([*COMMAND, "train", "--check", str(run.config)], check=False).returncode == 0
    bad = write_config(tiny_recipe, epochs=-1)
    result = subprocess.run(
        [*COMMAND, "train", "--check", str(bad.config)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 78
    assert f"{bad.config}: epochs must be a number above 0, at most 1000000, got -1" in result.stderr
    assert not run.events.exists()


@needs_bfloat16
def test_mixed_precision_trains_where_the_device_has_it(tiny_recipe, tmp_path):
    losses = {}
    for precision in ("float32", "bfloat16"):
        run = write_config(tiny_recipe, precision=precision, epochs=1, run_directory=str(tmp_path / precision))
        assert train(run).returncode == 0
        losses[precision] = of_kind(run, "validation")[-1]["loss"]
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.1)


@pytest.mark.parametrize("option", ["--config", "--check"])
def test_mixed_precision_is_refused_where_the_processor_lacks_it(tiny_recipe, option):
    run = write_config(tiny_recipe, precision="bfloat16")
    result = subprocess.run(
        [*COMMAND, "train", option, str(run.config)], capture_output=True, text=True, check=False,
        env={**os.environ, "DNNL_MAX_CPU_ISA": "AVX2"},
    )
    assert result.returncode == 78
    assert f'{run.config}: precision must be "float32" on this machine' in result.stderr
    assert "Traceback" not in result.stderr
    assert not run.checkpoints.exists()
