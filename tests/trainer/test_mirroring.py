"""The mirror as a process beside a trainer, and a training that continues on a fresh host."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import mxnet as mx
import numpy as np
import psutil
import pytest
import training
from fakes.s3 import CREDENTIALS, S3, silence
from mirror_runs import add_checkpoint, make_run, mirrored_steps, until
from training import of_kind

from trainer import lease
from trainer.config import load
from trainer.errors import DataError, DiskError
from trainer.spot import mirroring, owner
from trainer.spot.place import place_of
from trainer.spot.stop import StopRequest

COMMAND = [sys.executable, "-m", "trainer"]
SOON = 60


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    return f"file://{tmp_path}/place"


@pytest.fixture
def s3(monkeypatch):
    server = S3(f"b{time.time_ns()}")
    for key, value in server.environment().items():
        monkeypatch.setenv(key, value)
    yield server
    server.stop()


@contextmanager
def mirroring_of(run, config):
    """The mirror and what it reports."""
    heard = []
    with mirroring.running(run, config, lambda kind, **fields: heard.append({"kind": kind, **fields})) as mirror:
        yield mirror, heard


def wait_for(mirror, name, seconds=SOON):
    return mirror.wait_for(name, time.monotonic() + seconds)


def mirror_process(run):
    """The one of this run; None while there is none."""
    for process in psutil.process_iter(["cmdline"]):
        if str(run.directory) in (process.info["cmdline"] or []) and "mirror" in process.info["cmdline"]:
            return process
    return None


def test_without_a_second_place_there_is_none(tmp_path):
    run, config = make_run(tmp_path)
    with mirroring_of(run, config) as (mirror, _):
        assert mirror is None
    mirroring.fetch(run, config, print, StopRequest())


def test_checkpoints_arrive_while_training_goes_on(tmp_path, place):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place)
    with mirroring_of(run, config) as (mirror, heard):
        for step in (10, 20):
            path = add_checkpoint(run, step)
            assert wait_for(mirror, path.name)
        process = mirror_process(run)
        assert os.getsid(process.pid) == process.pid  # a terminal's Ctrl-C does not reach it
        assert process.nice() > os.nice(0)
    arrived = [(event["ok"], event["step"], event["failures"], event["reason"]) for event in heard if "ok" in event]
    assert arrived == [(True, 10, 0, None), (True, 20, 0, None)]
    assert mirrored_steps(config) == [20, 10]
    assert mirror_process(run) is None


def test_the_logs_last_words_arrive_too(tmp_path, place):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place)
    with mirroring_of(run, config) as (mirror, _):
        assert wait_for(mirror, add_checkpoint(run, 10).name)
        with open(run.events, "a") as file:
            file.write('{"t":3,"kind":"stop"}\n')
    assert place_of(place, "tiny").read("events.jsonl")[0] == run.events.read_bytes()


def test_a_wait_ends_at_its_deadline_and_says_that_it_waits(tmp_path):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=f"file://{tmp_path}/not-mounted")
    name = add_checkpoint(run, 10).name
    with mirroring_of(run, config) as (mirror, heard):
        started = time.monotonic()
        assert not wait_for(mirror, name, seconds=1.5)
        assert 1.5 <= time.monotonic() - started < 10
        failed = until(lambda: [event for event in heard if event["kind"] == "mirror"])[0]
    assert not failed["ok"]
    assert failed["failures"] >= 1
    assert "not-mounted" in failed["reason"]
    assert [event["checkpoint"] for event in heard if event["kind"] == "mirror_wait"] == [name]


def test_it_catches_up_when_the_place_comes_back(tmp_path):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=f"file://{tmp_path}/place")
    name = add_checkpoint(run, 10).name
    with mirroring_of(run, config) as (mirror, heard):
        until(lambda: heard)
        (tmp_path / "place").mkdir()
        assert wait_for(mirror, name)
    assert [event["ok"] for event in heard if event["kind"] == "mirror"] == [False, True]


def test_killed_in_the_middle_of_an_upload(tmp_path, place):
    """Nothing half-written is believed, and another process goes on."""
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place, checkpoint_mirror_mb_per_second=1)
    add_checkpoint(run, 10)
    with mirroring_of(run, config) as (mirror, heard):
        until(lambda: (mirror.state() or {}).get("step") == 10)
        name = add_checkpoint(run, 20, size=20_000_000).name
        until(lambda: list((tmp_path / "place").rglob(".weights.params.*.draft")))
        mirror_process(run).kill()
        until(lambda: not heard[-1]["ok"])
        assert mirrored_steps(config) == [10]
        assert heard[-1]["reason"] == "the mirror process ended with -9"
        assert wait_for(mirror, name)  # without the cap: a stop is near
    assert heard[-1]["ok"]
    assert mirrored_steps(config) == [20, 10]
    assert not list((tmp_path / "place").rglob("*.draft"))


TRAINER = """
import sys, time
from pathlib import Path
from trainer import lease
from trainer.config import load
from trainer.run import Run
from trainer.spot import mirroring
config = load(Path(sys.argv[1]))
with mirroring.running(Run(config.run_directory), config, lambda *_, **__: None):
    print("trains", flush=True)
    time.sleep(600)
"""


def test_it_finishes_and_ends_when_its_trainer_is_killed(tmp_path, place):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place, checkpoint_mirror_mb_per_second=1)
    add_checkpoint(run, 10, size=20_000_000)
    with subprocess.Popen([sys.executable, "-c", TRAINER, str(run.config)], stdout=subprocess.PIPE) as trainer:
        assert trainer.stdout.readline() == b"trains\n"
        until(lambda: list((tmp_path / "place").rglob(".weights.params.*.draft")))
        mirror = mirror_process(run)
        mirror.terminate()  # as a service manager does to all processes of a unit
        trainer.kill()
    assert psutil.wait_procs([mirror], SOON)[1] == []
    assert mirrored_steps(config) == [10]


def test_the_next_trainers_mirror_waits_for_the_one_before(tmp_path, place):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place)
    name = add_checkpoint(run, 10).name
    with open(run.mirror_lock, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with mirroring_of(run, config) as (mirror, _):
            until(lambda: mirror_process(run))
            assert not wait_for(mirror, name, seconds=1)
            lock.close()
            assert wait_for(mirror, name)


def test_a_place_that_was_taken_over_is_not_waited_for(tmp_path, place):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place)
    with mirroring_of(run, config) as (mirror, heard):
        assert wait_for(mirror, add_checkpoint(run, 10).name)
        owner.claim(place_of(place, "tiny"), {"id": "other", "host": "new-host"}, claimed_before=False)
        started = time.monotonic()
        assert not wait_for(mirror, add_checkpoint(run, 20).name, seconds=600)
        assert time.monotonic() - started < SOON
        until(lambda: not heard[-1]["ok"])
    assert "taken over by a trainer on new-host" in heard[-1]["reason"]


def test_a_mirror_that_cannot_start_hurts_nobody(tmp_path, place, monkeypatch):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place)
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with mirroring_of(run, config) as (mirror, heard):
        until(lambda: heard)
        assert not wait_for(mirror, "00000010-0", seconds=0.1)
    assert "cannot be started" in heard[0]["reason"]


def test_a_stop_ends_the_wait_for_a_place_that_does_not_answer(tmp_path, s3):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=f"s3://{s3.bucket}")
    over, stop = threading.Event(), StopRequest()
    s3.fault = silence(over)
    threading.Thread(target=lambda: (until(lambda: s3.requests), stop.ask("signal"))).start()
    started = time.monotonic()
    mirroring.fetch(run, config, print, stop)
    assert time.monotonic() - started < 30
    over.set()


def test_a_fetch_that_is_killed_is_told_with_words(tmp_path, place):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place)
    threading.Thread(target=lambda: until(lambda: mirror_process(run)).kill()).start()
    with pytest.raises(DiskError, match="bringing checkpoints from the mirror ended with -9"):
        mirroring.fetch(run, config, print, StopRequest())


@pytest.mark.parametrize(("code", "kind"), [(74, DiskError), (66, DataError)])
def test_what_the_fetch_says_is_the_trainers_error(tmp_path, place, code, kind):
    run, config = make_run(tmp_path / "here", checkpoint_mirror=place)
    if code == 74:
        (tmp_path / "place").rmdir()
    else:
        there = place_of(place, "tiny")
        missing = owner.Copy(name="00000010-0", directory="00000010-0-abc", step=10, validated_epochs=0)
        owner.write(there, owner.claim(there, {"id": "x"}, False), [missing])
    with pytest.raises(kind, match="to train from the start"):
        mirroring.fetch(run, config, print, StopRequest())
    assert kind.exit_code == code


def command(*arguments):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_by_hand_there_and_back(tmp_path, place):
    run, _ = make_run(tmp_path / "here", checkpoint_mirror=place)
    name = add_checkpoint(run, 10).name
    done = command("mirror", "--run", str(run.directory))
    assert (done.returncode, done.stdout) == (0, f"{place} holds step 10\n"), done.stderr
    fresh, _ = make_run(tmp_path / "elsewhere", checkpoint_mirror=place)
    done = command("mirror", "--run", str(fresh.directory), "--fetch")
    assert done.returncode == 0, done.stderr
    assert (fresh.checkpoints / name).is_dir()


def test_by_hand_beside_a_trainer_is_refused(tmp_path, place):
    run, _ = make_run(tmp_path / "here", checkpoint_mirror=place)
    with lease.hold(run), open(run.mirror_lock, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for options, words in (([], "--run must have one mirror process"), (["--fetch"], "trained by one process")):
            done = command("mirror", "--run", str(run.directory), *options)
            assert done.returncode == 78
            assert words in done.stderr


def test_by_hand_without_a_place(tmp_path):
    run, _ = make_run(tmp_path)
    done = command("mirror", "--run", str(run.directory))
    assert done.returncode == 78
    assert "checkpoint_mirror must be" in done.stderr


def write_config(recipe, folder, **changes):
    return training.write_config(recipe, run_directory=str(folder / "tiny"), **changes)


def train(run, *options):
    return command("train", "--config", str(run.config), *options)


def weights(run):
    arrays = mx.nd.load(str(run.checkpoints / run.latest.read_text().strip() / "weights.params"))
    return {key: array.asnumpy() for key, array in arrays.items()}


def test_a_fresh_host_continues_as_if_nothing_had_happened(tmp_path, s3, tiny_recipe):
    url = f"s3://{s3.bucket}/runs"
    recipe = tiny_recipe | {"augmentation": "pad"}
    uninterrupted = write_config(recipe, tmp_path / "uninterrupted")
    training.train(recipe, run_directory=str(uninterrupted.directory))
    expected = weights(uninterrupted)
    lost = write_config(recipe, tmp_path / "lost", checkpoint_mirror=url)
    done = train(lost, "--until-step", "13")
    assert done.returncode == 0, done.stderr
    assert of_kind(lost, "stop")[-1]["mirrored"] is True
    fresh = write_config(recipe, tmp_path / "fresh", checkpoint_mirror=url)
    done = train(fresh)
    assert done.returncode == 0, done.stderr
    assert "has step 13, here is none: bringing it here" in done.stderr
    assert [event["resumed_step"] for event in of_kind(fresh, "start")] == [0, 13]  # the log came along
    assert json.loads(fresh.report_json.read_text())["finished"]
    found = weights(fresh)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert mirrored_steps(load(fresh.config))[0] == 20


def test_a_fresh_host_that_cannot_reach_the_place_does_not_train(tmp_path, tiny_recipe):
    run = write_config(tiny_recipe, tmp_path / "fresh", checkpoint_mirror=f"file://{tmp_path}/not-mounted")
    done = train(run)
    assert done.returncode == 74
    assert "must be a directory that exists" in done.stderr
    assert "to train from the start, remove checkpoint_mirror from the configuration" in done.stderr
    assert not run.events.exists()


def test_training_outlives_its_second_place_and_the_mirror_catches_up(tmp_path, s3, tiny_recipe):
    """Told in the log, seen in no process list; a signal then ends it with the last checkpoint over there."""
    run = write_config(
        tiny_recipe, tmp_path / "here", checkpoint_mirror=f"s3://{s3.bucket}", epochs=3000, checkpoint_interval=0.5
    )
    with subprocess.Popen([*COMMAND, "train", "--config", str(run.config)], stderr=subprocess.DEVNULL) as trainer:
        try:
            until(lambda: of_kind(run, "mirror"))
            s3.stop()
            failed = until(lambda: [event for event in of_kind(run, "mirror") if not event["ok"]])[0]
            assert "Could not connect" in failed["reason"]
            step = of_kind(run, "checkpoint")[-1]["step"]
            until(lambda: of_kind(run, "checkpoint")[-1]["step"] > step)
            shown = [argument for process in _family(trainer.pid) for argument in process.cmdline()]
            assert "mirror" in shown
            assert not set(CREDENTIALS.values()) & set(shown)
            s3.start()
            until(lambda: of_kind(run, "mirror")[-1]["ok"])
            trainer.send_signal(signal.SIGTERM)
            assert trainer.wait(SOON) == 0
        finally:
            trainer.kill()
    stop = of_kind(run, "stop")[-1]
    assert (stop["reason"], stop["mirrored"]) == ("signal", True)
    assert mirrored_steps(load(run.config))[0] == stop["step"]


def _family(pid):
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
