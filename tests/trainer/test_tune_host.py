"""Tuning on this machine: real probes in processes of their own, stopped, kept, refused."""

import json
import signal
import subprocess
import sys
import time

import mxnet as mx
import psutil
import pytest

from trainer.config import build
from trainer.errors import ConfigError, DataError, TooLargeError
from trainer.learn.devices import telling_short_memory
from trainer.run import Run
from trainer.spot.practice import Practice, serving
from trainer.tune import disk
from trainer.tune.figures import DoesNotFitError, Effort, OutOfTimeError, Probe
from trainer.tune.host_prober import HostProber, StoppedError

SHORT = Effort(2.0)


@pytest.fixture
def prober(tiny_recipe, tmp_path):
    config = build(tiny_recipe, source="test", folder=tmp_path)
    return HostProber(config, 300.0, lambda: False, tmp_path / "scratch")


def children():
    return [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("what", ["network", "input", "training", "proof", "disk"])
def test_a_probe_measures_this_machine(prober, what):
    measured = prober(Probe(what, 0 if what in ("input", "disk") else 32, 2, SHORT, 0.0))
    assert all(rate > 0 for rate in measured.rates)
    assert (measured.memory_mb is None) == (what == "disk")
    assert not prober.config.run_directory.exists()
    assert [path.name for path in prober.scratch.iterdir()] == ["log"]
    assert not children()


def test_a_batch_that_memory_cannot_hold_does_not_fit_and_the_next_probe_works(prober):
    prober.config = prober.config.model_copy(update={"image_shape": (3, 20000, 20000), "num_layers": 18})
    with pytest.raises(DoesNotFitError, match="MB of memory"):
        prober(Probe("input", 0, 1, SHORT, 0.0))


def test_what_is_wrong_with_the_data_is_told_in_its_own_words(prober, tmp_path):
    prober.config = prober.config.model_copy(update={"data_train": tmp_path / "none.rec"})
    with pytest.raises(DataError, match="none.rec"):
        prober(Probe("input", 0, 1, SHORT, 0.0))


@pytest.mark.parametrize(("stopped", "budget", "error"), [(True, 300.0, StoppedError), (False, 0.3, OutOfTimeError)])
def test_a_probe_ends_when_asked_and_when_the_time_is_up(prober, stopped, budget, error):
    asked = iter([False])
    prober.is_stopped = lambda: stopped and next(asked, True)
    prober.budget_seconds = budget
    with pytest.raises(error):
        prober(Probe("network", 32, 0, Effort(60.0), 0.0))
    assert not children()


def write_config(tiny_recipe, tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(build(tiny_recipe, source="test", folder=tmp_path).to_toml())
    return path


def tune_command(path, tmp_path, *more):
    return [sys.executable, "-m", "trainer", "tune", "--config", str(path), "--keep", str(tmp_path / "kept"), *more]


@pytest.fixture
def metadata():
    with serving(Practice()) as practice:
        yield practice


@pytest.mark.parametrize("asked_by", ["a signal", "a notice"])
def test_whoever_asks_ends_tuning_and_nothing_is_left(tiny_recipe, tmp_path, metadata, asked_by):
    path = write_config(tiny_recipe | {"imds_url": metadata.url}, tmp_path)
    running = subprocess.Popen(
        tune_command(path, tmp_path, "--threads-only"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    scratch = tmp_path / "run/tiny/.tuning/run"
    deadline = time.monotonic() + 60
    while not scratch.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    probes = psutil.Process(running.pid).children(recursive=True)
    if asked_by == "a signal":
        running.send_signal(signal.SIGTERM)
    else:
        metadata.give_notice()
    _, printed = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "stopped: nothing was written" in printed
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").rglob("*.*"))
    assert not (tmp_path / "kept").exists()
    assert not any(probe.is_running() and probe.status() != psutil.STATUS_ZOMBIE for probe in probes)


def test_a_run_that_has_begun_is_not_tuned(tiny_recipe, tmp_path):
    path = write_config(tiny_recipe, tmp_path)
    run = Run(tmp_path / "run/tiny")
    run.directory.mkdir(parents=True)
    run.events.write_text(json.dumps({"t": 1, "kind": "start"}) + "\n")
    done = subprocess.run(tune_command(path, tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == ConfigError.exit_code
    assert "must be of a run that has not begun" in done.stderr


def test_a_cold_volume_is_one_whose_records_come_faster_when_read_again(tiny_data, monkeypatch):
    """The clock of a volume that fetches each block at its first reading, and of one that does not."""
    for seconds, cold in (((0.0, 5.0, 5.1), True), ((0.0, 5.0, 10.0), False), ((0.0, 0.01, 0.011), False)):
        ticks = iter(seconds)
        monkeypatch.setattr(disk.time, "monotonic", lambda ticks=ticks: next(ticks))
        assert disk.is_cold(tiny_data["train"]) is cold


@pytest.mark.slow
def test_the_whole_search_on_this_machine_and_its_result_is_kept(tiny_recipe, tmp_path):
    path = write_config(tiny_recipe, tmp_path)
    done = subprocess.run(
        tune_command(path, tmp_path, "--json", "--budget-seconds", "240"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "run/tiny/tuning.json").read_text())
    assert found["seconds"] <= 240
    assert found["proven"]
    assert found["largest_batch"] <= 160
    assert set(found["roofs"]) == {"network", "input", "disk"}
    if not found["warnings"]:
        again = subprocess.run(tune_command(path, tmp_path, "--json"), capture_output=True, text=True, check=True)
        assert json.loads(again.stdout)["kept"]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("Check failed: e == cudaSuccess: CUDA: out of memory", TooLargeError),
        ("cudaMalloc retry failed: out of memory", TooLargeError),
        ("Check failed: cuDNN: CUDNN_STATUS_ALLOC_FAILED", TooLargeError),
        ("std::bad_alloc", TooLargeError),
        ("Check failed: shape mismatch", mx.MXNetError),
    ],
)
def test_mxnets_words_for_memory_that_is_short(message, error):
    with pytest.raises(error), telling_short_memory():
        raise mx.MXNetError(f"[14:00:00] somewhere.cc:1\n{message}")
