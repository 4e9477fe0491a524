"""Why a trainer ended without a word."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import run_logs

from trainer import crash, interruption, lease, machine
from trainer.observe import events
from trainer.run import Run

HERE = socket.gethostname()
TIMES = {"started": 900.0, "heartbeat": 1030.0}
STOPPED = [*run_logs.steps(1010, 10, 30), run_logs.stop(1040, 30, "signal")]


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """A /proc whose counters can be set."""
    folder = tmp_path / "proc"
    (folder / "sys/kernel/random").mkdir(parents=True)
    (folder / "sys/kernel/random/boot_id").write_text("this-boot\n")
    (folder / "vmstat").write_text("pgfault 5\noom_kill 3\nallocstall 1\n")
    monkeypatch.setattr(machine, "PROC", folder)
    return folder


@pytest.fixture
def interrupted(tmp_path):
    """A run whose last start has made 30 steps and no stop."""
    return run_logs.write_run(tmp_path / "r", [run_logs.start(1000, host=HERE), *run_logs.steps(1010, 10, 30)])


def left(**changes) -> dict:
    return {"host": HERE, "boot_id": "this-boot", "pid": 1, **TIMES, "memory_kills": 3, "ended": False, **changes}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "killed"),
        ({"memory_kills": 2}, "out_of_memory"),
        ({"memory_kills": None}, "killed"),
        ({"boot_id": "before"}, "host_restarted"),
        ({"boot_id": "before", "memory_kills": 0}, "host_restarted"),
        ({"host": "elsewhere", "boot_id": "other"}, "host_lost"),
    ],
)
def test_the_reason(proc, interrupted, changes, reason):
    found = interruption.why(interrupted, left(**changes))
    assert found["reason"] == reason
    assert (found["step"], found["seen"]) == (30, 1030)
    assert "after step 30" in interruption.words(found)


@pytest.mark.parametrize("text", ["", "pgfault 5\n", None])
def test_a_kernel_that_counts_no_memory_kills_blames_none(proc, interrupted, text):
    if text is None:
        (proc / "vmstat").unlink()
    else:
        (proc / "vmstat").write_text(text)
    assert machine.memory_kills() is None
    assert interruption.why(interrupted, left())["reason"] == "killed"


def test_an_end_in_order_has_no_reason(proc, tmp_path, interrupted):
    assert interruption.why(interrupted, left(ended=True)) is None
    stopped = run_logs.write_run(tmp_path / "s", [run_logs.start(1000), *STOPPED])
    assert interruption.why(stopped, left()) is None
    assert interruption.why(stopped, None) is None
    assert interruption.why(run_logs.write_run(tmp_path / "new"), None) is None


def test_an_end_before_its_start_event_has_one_too(proc, tmp_path):
    stopped = run_logs.write_run(tmp_path / "s", [run_logs.start(1000), *STOPPED])
    found = interruption.why(stopped, left(started=1100.0, heartbeat=1101.0))
    assert (found["reason"], found["step"], found["seen"]) == ("killed", 30, 1101)
    fresh = run_logs.write_run(tmp_path / "new")
    assert interruption.why(fresh, left()) == {"reason": "killed", "host": HERE, "step": None, "seen": 1030}


def test_a_reason_is_told_once(proc, interrupted):
    report = events.event_writer(interrupted.events)
    report("interrupted", **interruption.why(interrupted, left()))
    assert interruption.why(interrupted, left()) is None
    assert interruption.why(interrupted, None) is None


@pytest.mark.parametrize(("host", "reason"), [("elsewhere", "host_lost"), (HERE, "killed")])
def test_events_that_came_without_a_lease(proc, tmp_path, host, reason):
    run = run_logs.write_run(tmp_path / "r", [run_logs.start(1000, host=host), *run_logs.steps(1010, 10, 30)])
    found = interruption.why(run, None)
    assert (found["reason"], found["host"], found["step"], found["seen"]) == (reason, host, 30, 1030)


CRASH = """
import ctypes, os, signal, sys, threading
from pathlib import Path
import mxnet
from trainer import crash, lease
from trainer.run import Run
run = Run(Path(sys.argv[1]))
def decoding():
    {what}
with lease.hold(run), crash.recording(run):
    decoding()
"""


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("os.abort()", "SIGABRT"), ("ctypes.string_at(0)", "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGFPE)", "SIGFPE"),
        ("thread = threading.Thread(target=os.abort); thread.start(); thread.join()", "SIGABRT"),
    ],
)  # fmt: skip
def test_a_crash_leaves_its_signal_and_place(interrupted, what, name):
    program = CRASH.format(what=what)
    assert subprocess.run(
        [sys.executable, "-c", program, interrupted.directory], capture_output=True, check=False
    ).returncode
    found = interruption.why(interrupted, lease.last(interrupted))
    assert (found["reason"], found["signal"]) == ("crash", name)
    assert name in interruption.words(found)
    if "threading" not in what:
        assert ":9 in decoding" in found["where"] or "string_at" in found["where"]
    stack = interrupted.crash.read_text()
    with crash.recording(interrupted):
        assert crash.left_by(interrupted) is None
    assert interrupted.crash_before.read_text() == stack
    assert not interrupted.crash.exists()


HUNGRY = """
import os, sys
from pathlib import Path
from trainer import lease
from trainer.run import Run
Path(sys.argv[2], "cgroup.procs").write_text(str(os.getpid()))
with lease.hold(Run(Path(sys.argv[1]))):
    eaten = [bytearray(10_000_000) for _ in range(200)]
"""


@pytest.fixture
def small_group():
    """A control group of 100 MB of memory."""
    groups = Path("/sys/fs/cgroup")
    old = (groups / "memory/memory.limit_in_bytes").exists()
    group = groups / ("memory" if old else "") / f"kit-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(100 << 20))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"control groups for memory cannot be made here: {error}")
    yield group
    group.rmdir()


def test_a_trainer_for_which_memory_ran_out(interrupted, small_group):
    hungry = subprocess.run([sys.executable, "-c", HUNGRY, interrupted.directory, small_group], check=False)
    assert hungry.returncode == -signal.SIGKILL
    found = interruption.why(interrupted, lease.last(interrupted))
    assert found["reason"] == "out_of_memory"
    assert "perhaps memory ran out" in interruption.words(found)


def test_the_place_of_a_crash_is_in_this_code(tmp_path):
    run = Run(tmp_path)
    step = Path(crash.__file__).with_name("learn") / "step.py"
    run.crash.write_text(
        "Fatal Python error: Floating-point exception\n\nCurrent thread 0x1 (most recent call first):\n"
        f'  File "/x/mxnet/_ctypes/ndarray.py", line 82 in _imperative_invoke\n  File "{step}", line 7 in forward\n'
    )
    assert crash.left_by(run) == {"signal": "SIGFPE", "where": "trainer/learn/step.py:7 in forward"}


def test_a_crash_without_python_on_the_stack_has_no_place(tmp_path):
    run = Run(tmp_path)
    run.crash.write_text(
        'Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n  File "x.py", line 1 in f\n'
    )
    assert crash.left_by(run) == {"signal": "SIGABRT", "where": None}


@pytest.mark.parametrize("event", [{}, {"reason": "new"}, {"reason": "crash"}, {"reason": "killed", "step": 3}])
def test_there_are_words_for_whatever_the_log_says(event):
    assert interruption.words(event)
