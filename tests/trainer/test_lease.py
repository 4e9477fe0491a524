"""One trainer a run."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

import pytest
import run_logs

from trainer import lease
from trainer.commands.report import report
from trainer.commands.stop import _stopped, stop
from trainer.errors import ConfigError, TrainerError
from trainer.machine import boot_id
from trainer.run import Run

HOLD = """
import sys, trainer.lease, trainer.run, pathlib
with trainer.lease.hold(trainer.run.Run(pathlib.Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_holder(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_holder_is_known_while_it_holds(tmp_path):
    run = Run(tmp_path)
    assert lease.holder(run) is None
    with lease.hold(run):
        assert lease.holder(run)["pid"] == os.getpid()
    assert lease.holder(run) is None


def test_a_second_trainer_is_refused_and_told_who_has_it(tmp_path, other_holder, monkeypatch):
    monkeypatch.setattr(lease, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(ConfigError, match=f"process {other_holder.pid} on .* has it"), lease.hold(Run(tmp_path)):
        pass


def test_a_killed_holder_leaves_nothing_behind(tmp_path, other_holder):
    other_holder.kill()
    other_holder.wait()
    assert lease.holder(Run(tmp_path)) is None
    with lease.hold(Run(tmp_path)):
        pass


def test_a_holder_that_ends_within_the_patience_is_waited_for(tmp_path, other_holder):
    other_holder.stdin.close()
    with lease.hold(Run(tmp_path)):
        assert lease.holder(Run(tmp_path))["pid"] == os.getpid()


def test_the_heartbeat_moves_until_the_end_which_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.01)
    run = Run(tmp_path)
    with lease.hold(run) as before:
        assert before is None
        first = lease.last(run)
        assert first["ended"] is False
        until(lambda: lease.last(run)["heartbeat"] > first["heartbeat"])
        size = run.lease.stat().st_size
    assert lease.last(run)["ended"] is True
    assert run.lease.stat().st_size == size
    with lease.hold(run) as before:
        assert before["started"] == first["started"]


def test_readers_see_whole_leases_only(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.0001)
    run = Run(tmp_path)
    with lease.hold(run):
        assert all(lease.last(run) for _ in range(2000))


def test_a_trainer_elsewhere_whose_heart_beats_is_left_alone(tmp_path, monkeypatch):
    run, said = Run(tmp_path), []
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 0.01)
    foreign_lease(run, heartbeat=1.0)
    beating = threading.Event()

    def say(line):
        said.append(line)
        foreign_lease(run, heartbeat=2.0)
        beating.set()

    with pytest.raises(ConfigError, match="process 4321 on elsewhere has it"), lease.hold(run, say):
        pass
    assert beating.is_set()
    assert "watching for 20 s" in said[0]
    assert lease.last(run)["host"] == "elsewhere"


@pytest.mark.parametrize("host", ["elsewhere", socket.gethostname()])
def test_a_trainer_elsewhere_that_is_gone_is_replaced(tmp_path, monkeypatch, host):
    run, said = Run(tmp_path), []
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(lease, "GONE_SECONDS", 0.1)
    foreign_lease(run, host=host)
    with lease.hold(run, said.append) as before:
        assert before["pid"] == 4321
        assert lease.last(run)["pid"] == os.getpid()
    assert "gives no sign of life; this process takes the run over" in said[-1]


@pytest.mark.parametrize("changes", [{"ended": True}, {"boot_id": boot_id()}, {"boot_id": None}])
def test_nobody_is_watched_who_ended_or_ran_here(tmp_path, changes):
    run, said = Run(tmp_path), []
    foreign_lease(run, **changes)
    with lease.hold(run, said.append):
        assert said == []


def test_a_trainer_whose_run_was_taken_over_ends(tmp_path):
    program = "import trainer.lease; trainer.lease.HEARTBEAT_SECONDS = 0.05" + HOLD
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "held\n"
        taken = Run(tmp_path / "taken")
        taken.directory.mkdir()
        foreign_lease(taken)
        os.replace(taken.lease, Run(tmp_path).lease)
        assert process.wait(timeout=30) == 78
        assert "process 4321 on elsewhere has taken it over" in process.stderr.read()


@pytest.mark.parametrize("ended", [False, True])
def test_whose_the_run_is(tmp_path, ended):
    """One that ended in order has written the run, too."""
    run = Run(tmp_path)
    assert lease.still_ours(run)
    with lease.hold(run):
        assert lease.still_ours(run)
        foreign_lease(run, ended=ended)
        assert not lease.still_ours(run)


def test_a_trainer_elsewhere_is_named(tmp_path, monkeypatch, capsys):
    """Its lock may not carry to here: nobody here knows whether it lives."""
    run = run_logs.write_run(tmp_path / "tiny", [run_logs.start(1000), *run_logs.steps(1010, 10, 30)])
    run.config.write_text("")
    foreign_lease(run, heartbeat=time.time() - 7)
    words = r"it is or was trained on elsewhere, whose last sign of life came [78]\.. s ago"
    stop(run=str(run.directory))
    assert re.search(f"tiny is not being trained on this machine; {words}", capsys.readouterr().out)
    report(run=str(run.directory))
    assert re.search(f"reason: {words}", capsys.readouterr().out)
    foreign_lease(run, ended=True)
    stop(run=str(run.directory))
    assert capsys.readouterr().out == "tiny is not being trained.\n"


STARTED, BEFORE = {"t": 20.0, "kind": "start"}, {"t": 9.0, "kind": "stop", "reason": "signal", "step": 3}


@pytest.mark.parametrize(
    ("log", "ended", "words"),
    [
        ([BEFORE, STARTED, {**BEFORE, "t": 30.0, "step": 4}], True, "stopped at step 4; its checkpoint is on disk"),
        ([STARTED, {**BEFORE, "t": 30.0, "reason": "non_finite_loss"}], True, "ended with non finite loss"),
        ([BEFORE, STARTED], False, "ended without a checkpoint"),
        ([BEFORE], True, "stopped before training began"),
        ([], True, "stopped before training began"),
        ([BEFORE], False, "ended without a checkpoint"),
        ([], False, "ended without a checkpoint"),
    ],
)
def test_how_a_trainer_ended_that_was_asked_to_stop(tmp_path, log, ended, words):
    """It began at second 10."""
    run = run_logs.write_run(tmp_path / "tiny", log)
    foreign_lease(run, ended=ended)
    if words.startswith("ended"):
        with pytest.raises(TrainerError, match=words):
            _stopped(run, {"started": 10.0})
    else:
        assert words in _stopped(run, {"started": 10.0})


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", "null", "\x00" * 512])
def test_a_lease_that_says_nothing_is_none(tmp_path, text):
    run = Run(tmp_path)
    run.lease.write_text(text)
    assert lease.last(run) is None
    with lease.hold(run) as before:
        assert before is None
        assert lease.holder(run)["pid"] == os.getpid()


def foreign_lease(run: Run, **changes) -> None:
    record = {
        "host": "elsewhere", "boot_id": "another", "pid": 4321, "started": 1.0, "heartbeat": 1.0, "memory_kills": 0,
        "ended": False, **changes,
    }  # fmt: skip
    run.lease.write_text(json.dumps(record))


def until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
