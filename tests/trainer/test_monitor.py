"""The monitor beside a trainer that is only a lease."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import psutil
import pytest
from run_logs import sample, write_run

from trainer import lease
from trainer.observe import events
from trainer.observe.monitor import MonitorRunningError, monitor, spawn_monitor

PATIENCE_SECONDS = 20
TRAINER = "import sys; from pathlib import Path; from trainer import lease; from trainer.run import Run\n"
TRAINER += "with lease.hold(Run(Path(sys.argv[1]))): print('trains', flush=True); sys.stdin.read()"


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "r")


@pytest.fixture
def trainer(run):
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(run.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "trains\n"
        yield process
        process.kill()


def until(true):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def samples(run):
    return list(events.read(run.samples))


def in_thread(*arguments):
    thread = threading.Thread(target=monitor, args=arguments, daemon=True)
    thread.start()
    return thread


def test_it_samples_while_the_trainer_lives_and_ends_when_it_is_killed(run, trainer):
    thread = in_thread(run, 0.05)
    until(lambda: len(samples(run)) >= 3)
    assert thread.is_alive()
    trainer.kill()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert all(set(entry) == set(sample(0)) for entry in samples(run))
    assert all(set(entry["cpu"]) == set(sample(0)["cpu"]) for entry in samples(run))


def test_without_a_trainer_it_gives_up(run):
    assert monitor(run, 0.05, start_seconds=0.3) == 0
    assert samples(run) == []


def test_it_waits_for_a_trainer_to_come(run):
    thread = in_thread(run, 0.05)
    time.sleep(0.3)
    with lease.hold(run):
        until(lambda: samples(run))
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_it_does_not_keep_the_next_trainer_out(run, monkeypatch):
    monkeypatch.setattr(lease, "PATIENCE_SECONDS", 0.5)
    thread = in_thread(run, 0.01)
    for _ in range(20):
        with lease.hold(run):
            time.sleep(0.02)
    thread.join(PATIENCE_SECONDS)


def test_one_writer_a_file(run, trainer):
    in_thread(run, 0.05)
    until(lambda: samples(run))
    with pytest.raises(MonitorRunningError, match="r has a monitor already"):
        monitor(run, 0.05)


def test_a_second_monitor_ends_well_and_says_why(run, trainer):
    in_thread(run, 0.05)
    until(lambda: samples(run))
    command = [sys.executable, "-m", "trainer", "monitor", "--run", str(run.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stdout) == (0, "r has a monitor already.\n")


def test_counters_that_do_not_answer_are_counted_and_survived(run, trainer, monkeypatch):
    real, calls = psutil.cpu_times, []

    def hiccup():
        calls.append(1)
        if 3 <= len(calls) <= 5:
            raise OSError("no /proc/stat just now")
        return real()

    monkeypatch.setattr(psutil, "cpu_times", hiccup)
    in_thread(run, 0.02)
    until(lambda: len(samples(run)) >= 4)
    assert [entry.get("missed", 0) for entry in samples(run)][:4] == [0, 3, 3, 3]


def test_a_log_that_is_replaced_is_written_and_locked_anew(run, trainer):
    """A trainer that resumes on a fresh machine brings the samples of the one before."""
    in_thread(run, 0.05)
    until(lambda: samples(run))
    brought = run.directory / "draft"
    brought.write_text(json.dumps(sample(1)) + "\n")
    os.replace(brought, run.samples)
    until(lambda: len(samples(run)) >= 4)
    assert samples(run)[0]["t"] == 1 and samples(run)[1]["t"] > 1
    with pytest.raises(MonitorRunningError):
        monitor(run, 0.05)


def test_it_goes_on_for_a_while_after_the_trainer_when_it_shall(run, trainer):
    thread = threading.Thread(target=monitor, args=(run, 0.05), kwargs={"after_seconds": 1.5}, daemon=True)
    thread.start()
    until(lambda: samples(run))
    trainer.kill()
    trainer.wait()
    killed = time.time()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    after = [entry for entry in samples(run) if entry["t"] > killed + 0.3]
    assert len(after) >= 5 and {entry["activity"] for entry in after} == {"stopped"}


def test_after_the_trainer_it_ends_with_its_parent(run, trainer):
    code = "import sys, time; from pathlib import Path; from trainer.run import Run\n"
    code += "from trainer.observe.monitor import spawn_monitor\n"
    code += "print(spawn_monitor(Run(Path(sys.argv[1])), 600).pid, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(run.directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        sampler = psutil.Process(int(parent.stdout.readline()))
        until(lambda: samples(run))
        trainer.kill()
        trainer.wait()
        seen = len(samples(run))
        until(lambda: len(samples(run)) >= seen + 2)
        parent.kill()
    until(lambda: not sampler.is_running())


def test_a_directory_that_vanishes_ends_it(run, trainer):
    thread = in_thread(run, 0.05)
    until(lambda: samples(run))
    run.lease.unlink()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_a_directory_that_vanishes_before_anybody_trains_ends_it(run):
    run.samples.unlink()
    thread = in_thread(run, 0.05)
    until(run.samples.exists)
    shutil.rmtree(run.directory)
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_a_spawned_monitor_samples_in_a_session_of_its_own_and_ends_with_the_trainer(run, trainer):
    spawn_monitor(run)
    until(lambda: samples(run))
    (process,) = [child for child in psutil.Process().children() if "monitor" in child.cmdline()]
    assert os.getsid(process.pid) == process.pid
    trainer.kill()
    assert process.wait(PATIENCE_SECONDS) in (0, None)


def test_a_monitor_that_cannot_start_hurts_nobody(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    spawn_monitor(run)
    assert "cannot start the monitor" in capsys.readouterr().err


def test_the_monitor_loads_neither_mxnet_nor_numpy():
    code = "import sys, trainer.observe.monitor; print({'mxnet', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
