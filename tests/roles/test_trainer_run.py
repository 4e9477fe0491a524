"""Pure parts of the action plugin: lines, offsets, states and what is said about them."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playing import ROLES

sys.path.insert(0, str(ROLES / "trainer" / "action_plugins"))
from trainer_run import EXIT_CODES, STATE, failure, start_command, whole_lines  # noqa: E402


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
    ],
)
def test_failures_are_said_in_words(state, report, said):
    message = failure(state, report, ["last line"])
    assert message is None if said is None else said in message


def test_a_crash_shows_the_end_of_the_log():
    assert failure(["ended", "70"], {}, ["Traceback", "Boom"]).endswith("Traceback\nBoom")


def shell(folder, command):
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True).stdout.split()


def wait_for_end(folder):
    deadline = time.monotonic() + 30
    while (state := shell(folder, STATE))[0] == "running" and time.monotonic() < deadline:
        time.sleep(0.05)
    return state


def test_the_exit_code_survives_the_shell_that_started_it(tmp_path):
    shell(tmp_path, start_command(["sh", "-c", "echo it\\'s; exit 7"]))
    assert wait_for_end(tmp_path) == ["ended", "7"]
    assert (tmp_path / "trainer.log").read_text() == "it's\n"


def test_a_start_forgets_the_exit_code_before(tmp_path):
    (tmp_path / "trainer.exit").write_text("7\n")
    shell(tmp_path, start_command(["sleep", "5"]))
    kind, group = shell(tmp_path, STATE)
    assert kind == "running"
    shell(tmp_path, f"kill -s TERM -- {group}")
    assert wait_for_end(tmp_path) == ["ended", "143"]


def test_the_lock_on_the_lease_tells_who_runs(tmp_path):
    (tmp_path / "lease.json").write_text('{"host": "h", "pid": 4321, "started": 1.5}')
    assert shell(tmp_path, STATE) == ["gone"]
    holder = subprocess.Popen(["flock", "lease.json", "sleep", "60"], cwd=tmp_path, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while shell(tmp_path, STATE) == ["gone"] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert shell(tmp_path, STATE) == ["running", "4321"]
    finally:
        subprocess.run(["kill", "--", f"-{holder.pid}"], check=True)
        holder.wait()
