"""Pure parts of the action plugin: lines, offsets, states and what is said about them."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import ROLES, call, program

sys.path.insert(0, str(ROLES / "trainer" / "action_plugins"))
from trainer_run import (  # noqa: E402
    EXIT_CODES,
    FORGET_EXIT,
    POLL_SECONDS,
    SILENCE_SECONDS,
    STATE,
    UNIT_STATE,
    failure,
    filler,
    journal_lines,
    start_command,
    whole_lines,
)


@pytest.mark.parametrize(
    ("text", "lines", "size"),
    [
        ("", [], 0),
        ("half", [], 0),
        ("one\n", ["one"], 4),
        ("one\ntwo\nhal", ["one", "two"], 8),
        ("größe\n", ["größe"], 8),
        ("\udcff\n", ["\udcff"], 2),
    ],
)
def test_half_lines_wait(text, lines, size):
    assert whole_lines(text) == (lines, size)


@given(st.text(alphabet="aé\n", max_size=40), st.integers(0, 60))
def test_a_log_cut_anywhere_gives_the_same_lines(text, cut):
    data = (text + "\n").encode()
    lines, offset = whole_lines(data[:cut].decode(errors="surrogateescape"))
    rest, _ = whole_lines(data[offset:].decode())
    assert lines + rest == (text + "\n").split("\n")[:-1]


@pytest.mark.parametrize(
    ("state", "report", "said"),
    [
        (["ended", "0"], {"finished": True}, None),
        (["ended", "0"], {"finished": False, "steps": 12}, "step 12"),
        (["ended", "78"], {}, EXIT_CODES[78]),
        (["ended", "66"], {"finished": True}, EXIT_CODES[66]),
        (["ended", "137"], {}, "it was killed"),
        (["gone"], {}, "without an exit code"),
        (["gone"], {"finished": False, "steps": 12}, "without an exit code"),
        (["gone"], {"finished": True}, None),
    ],
)
def test_failures_are_said_in_words(state, report, said):
    message = failure(state, report, ["last line"])
    assert message is None if said is None else said in message


def test_a_crash_shows_the_end_of_the_log():
    assert failure(["ended", "70"], {}, ["Traceback", "Boom"]).endswith("Traceback\nBoom")


@pytest.mark.parametrize(
    ("line_seconds", "shown_seconds", "shown"),
    [
        (1, 1, None),
        (SILENCE_SECONDS, SILENCE_SECONDS, None),
        (4.2, 4.2, "... (4 s since the last line)"),
        (8.4, 4.2, "... (8 s since the last line)"),
        (8.4, 1, None),
    ],
)
def test_a_silence_is_filled_with_its_length(line_seconds, shown_seconds, shown):
    assert filler(line_seconds, shown_seconds) == shown


def test_something_is_shown_every_five_seconds_even_when_a_look_takes_half_a_second():
    assert SILENCE_SECONDS + POLL_SECONDS + 0.5 <= 5


def shell(folder, command):
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True).stdout.split()


def wait_until(is_so):
    deadline = time.monotonic() + 30
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)


def wait_for_end(folder):
    wait_until(lambda: shell(folder, STATE)[0] != "running")
    return shell(folder, STATE)


def test_the_exit_code_survives_the_shell_that_started_it(tmp_path):
    shell(tmp_path, start_command(["sh", "-c", "echo it\\'s; exit 7"]))
    assert wait_for_end(tmp_path) == ["ended", "7"]
    assert (tmp_path / "trainer.log").read_text() == "it's\n"


def test_a_start_forgets_the_exit_code_before(tmp_path):
    (tmp_path / "trainer.exit").write_text("7\n")
    shell(tmp_path, start_command(["sh", "-c", "echo here; exec sleep 60"]))
    wait_until(lambda: "here" in (tmp_path / "trainer.log").read_text())
    kind, group = shell(tmp_path, STATE)
    assert kind == "running"
    shell(tmp_path, f"kill -s TERM -- {group}")
    assert wait_for_end(tmp_path) == ["ended", "143"]


def test_a_second_start_changes_nothing(tmp_path):
    shell(tmp_path, start_command(["sleep", "60"]))
    _, group = shell(tmp_path, STATE)
    shell(tmp_path, start_command(["sh", "-c", "echo second"]))
    assert shell(tmp_path, STATE) == ["running", group]
    shell(tmp_path, f"kill -s TERM -- {group}")
    assert wait_for_end(tmp_path) == ["ended", "143"]
    assert "second" not in (tmp_path / "trainer.log").read_text()


def test_a_process_that_has_got_the_number_of_a_trainer_that_is_gone_is_no_trainer(tmp_path):
    (tmp_path / "trainer.lock").touch()
    (tmp_path / "trainer.pid").write_text(f"{os.getpid()}\n")
    assert shell(tmp_path, STATE) == ["gone"]


def test_an_exit_code_that_a_full_disk_swallowed_is_none(tmp_path):
    (tmp_path / "trainer.exit").touch()
    assert shell(tmp_path, STATE) == ["gone"]


@pytest.fixture
def started_by_hand(tmp_path):
    """A run that another program trains until there is a file `end`; the exit code is of a start before."""
    (tmp_path / "lease.json").write_text('{"host": "h", "pid": 4321, "started": 1.5}')
    (tmp_path / "trainer.exit").write_text("78\n")
    holder = subprocess.Popen(
        ["flock", "lease.json", "sh", "-c", "echo held; until [ -e end ]; do sleep 0.1; done"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    )
    assert holder.stdout.readline() == "held\n"
    yield tmp_path
    (tmp_path / "end").touch()
    holder.wait()


def test_the_lock_on_the_lease_tells_who_runs(started_by_hand):
    assert shell(started_by_hand, STATE) == ["running", "4321"]
    (started_by_hand / "end").touch()
    assert wait_for_end(started_by_hand) == ["ended", "78"]


@pytest.mark.parametrize("finished", [True, False])
def test_a_trainer_started_by_hand_is_judged_by_its_report_not_by_an_old_exit_code(started_by_hand, finished):
    (started_by_hand / "report.json").write_text(json.dumps({"finished": finished}))
    arguments = {"directory": str(started_by_hand), "command": ["false"]}
    with ThreadPoolExecutor() as thread:
        running = thread.submit(call, "trainer_run", "trainer", arguments)
        wait_until(lambda: not (started_by_hand / "trainer.exit").exists())
        (started_by_hand / "end").touch()
    result = running.result()
    if finished:
        assert result["report"] == {"finished": True}
    else:
        assert "without an exit code" in result["msg"]


def test_the_exit_code_of_a_trainer_that_runs_is_not_forgotten(tmp_path):
    shell(tmp_path, start_command(["sh", "-c", "echo 3 >trainer.exit; sleep 60"]))
    _, group = shell(tmp_path, STATE)
    wait_until((tmp_path / "trainer.exit").exists)
    shell(tmp_path, FORGET_EXIT)
    assert (tmp_path / "trainer.exit").exists()
    shell(tmp_path, f"kill -s TERM -- {group}")


def test_a_run_directory_that_is_not_there_is_said_in_words(tmp_path):
    result = call("trainer_run", "trainer", {"directory": str(tmp_path / "none"), "command": ["true"]})
    assert result["msg"].startswith(f"Failed to look into the run {tmp_path}/none")
    assert "cd" in result["msg"]


def test_a_run_directory_that_vanishes_while_it_is_trained_is_said_in_words(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    result = call("trainer_run", "trainer", {"directory": str(run), "command": ["rm", "-rf", str(run)]})
    assert result["msg"].startswith(f"Failed to look into the run {run}")


@pytest.mark.parametrize(
    ("text", "lines", "cursor"),
    [
        ("", [], "before"),
        ("-- cursor: s=1\n", [], "s=1"),
        ("step 1\nstep 2\n-- cursor: s=1;i=2\n", ["step 1", "step 2"], "s=1;i=2"),
    ],
)
def test_the_journal_is_read_on_from_where_it_was(text, lines, cursor):
    assert journal_lines(text, "before") == (lines, cursor)


@pytest.mark.parametrize(
    ("active", "code", "status", "state"),
    [
        ("active", 0, 0, ["running", "t.service"]),
        ("activating", 1, 70, ["running", "t.service"]),
        ("deactivating", 0, 0, ["running", "t.service"]),
        ("inactive", 1, 0, ["ended", "0"]),
        ("failed", 1, 66, ["ended", "66"]),
        ("failed", 2, 9, ["ended", "137"]),
        ("failed", 3, 6, ["ended", "134"]),
    ],
)
def test_the_state_of_a_unit(tmp_path, active, code, status, state):
    values = f"case $2 in *ActiveState) echo {active} ;; *Code) echo {code} ;; *Status) echo {status} ;; esac"
    program(tmp_path / "systemctl", values)
    path = f"PATH={tmp_path}:$PATH; " + UNIT_STATE.replace("UNIT", "t.service")
    assert shell(tmp_path, path) == state
