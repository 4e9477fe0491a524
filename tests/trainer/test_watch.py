"""`watch`: the essentials of a run, in a terminal, in a log, and from a monitor elsewhere."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recorded_run import training, write_recorded_run
from rich.console import Console
from run_logs import finished, sample, write_run
from serving import serving

from trainer.commands.watch_screen import bar, one_line, screen
from trainer.observe.live import LiveView

PROJECT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-the-right-length"


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "trainer", "watch", *options]


def watch(*options: str, **more) -> subprocess.CompletedProcess:
    return subprocess.run(command(*options), capture_output=True, text=True, timeout=120, cwd=PROJECT, **more)


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "r", finished(), [sample(1000 + n) for n in range(200)])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return write_recorded_run(tmp_path_factory.mktemp("watch") / "imagenet", time.time(), seconds=600, examples=60_000)


def test_once_prints_the_essentials(run):
    done = watch("--run", str(run.directory), "--once")
    assert done.returncode == 0, done.stderr
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert told["state"] == "Finished"
    assert told["epoch"] == "2 of 2"
    assert told["step"] == "200 of 200"
    assert told["top-1"].startswith("75.00")
    assert told["checkpoint"].startswith("step 200")
    assert "cost" not in told


def test_a_run_that_is_over_ends_the_lines(run):
    done = watch("--run", str(run.directory))
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("r: finished, epoch 2 of 2")


def test_json_is_the_message_of_the_page(recorded):
    told = json.loads(watch("--run", str(recorded.directory), "--once", "--json").stdout)
    assert len(told["gpus"]) == 16
    assert told["state"] == "interrupted"
    assert told["costs"]["market"] == "spot"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 20)])
def test_all_of_it_fits_the_terminal(recorded, width, height):
    view = LiveView(recorded)
    while (seen := view.now())["loaded"] < 1:
        pass
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(screen("imagenet", seen, width, height))
    lines = console.export_text().splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "the devices are the limit" in text or width == 40
    assert ("15 █" in text) == (width > 40)
    assert ("more GPUs" in text) == (width == 40)
    assert "of the roof of 792" in text or width == 40
    assert "ends this" in lines[-1]


def test_progress_goes_by_epochs_and_a_hang_is_told(recorded):
    """Of 100 steps with a batch of 8 and 100 with one of 800, the first hundred are no half."""
    view = LiveView(recorded)
    while (seen := view.now())["loaded"] < 1:
        pass
    seen |= {"state": "running", "stands_still": True, "step_age_seconds": 400.0, "step": 50, "steps_total": 100}
    seen |= {"epoch": 10.0, "epochs": 100}
    console = Console(width=120, height=30, file=io.StringIO(), record=True)
    console.print(screen("imagenet", seen, 120, 30))
    text = console.export_text()
    assert "10.0\u202f%" in text
    assert "no step for 6 min 40 s" in text
    assert "last step 6 min 40 s ago" in text
    assert "no step for 6 min 40 s" in one_line("imagenet", seen)


def test_an_empty_run_has_a_screen(tmp_path):
    seen = LiveView(write_run(tmp_path / "r")).now()
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(screen("r", seen, 80, 24))
    assert "Not started" in console.export_text()


def test_a_bar_is_as_long_as_its_share():
    assert bar(0, 4) == "····"
    assert bar(1, 4) == "████"
    assert bar(0.5, 4) == "██··"
    assert len(bar(0.37, 10)) == 10


def on_a_terminal(run, seen: bytes, then) -> tuple[int, bytes]:
    """Exit code and output of `watch` on a terminal of 80 x 24, after `then(its process, the terminal)`."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    pipes = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen(command("--run", str(run.directory)), **pipes, cwd=PROJECT, env=environment)
    os.close(theirs)
    shown, told, deadline = b"", False, time.monotonic() + 90
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                shown += os.read(ours, 1 << 16)
            except OSError:
                break
        if seen in shown and not told:
            told = True
            then(process, ours)
    os.close(ours)
    return process.wait(30), shown


def test_q_ends_it_and_leaves_the_terminal_as_it_was(run):
    code, shown = on_a_terminal(run, b"training goes on", lambda _, terminal: os.write(terminal, b"q"))
    assert code == 0
    assert b"Finished" in shown
    assert shown.rstrip().endswith(b"\x1b[?1049l")  # the screen from before
    assert b"Traceback" not in shown


def test_ctrl_c_ends_it_quietly(run):
    code, shown = on_a_terminal(run, b"training goes on", lambda process, _: process.send_signal(signal.SIGINT))
    assert code == 0
    assert b"Traceback" not in shown


def test_a_monitor_elsewhere_is_read_with_its_token(recorded, tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with training(recorded), serving(recorded, tmp_path, "--token-file", str(token)) as server:
        told = watch("--run", server.url, "--once", "--json", "--token-file", str(token))
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["state"] == "running"
        refused = watch("--run", server.url, "--once")
    assert refused.returncode == 78
    assert refused.stderr.startswith(f"error: --token-file must hold the token of {server.url}, got none")


def test_a_monitor_that_does_not_answer_is_named():
    done = watch("--run", "http://127.0.0.1:9", "--once")
    assert done.returncode == 78
    assert "--run must be the address of a monitor that answers, got http://127.0.0.1:9" in done.stderr


def test_a_monitor_that_goes_away_is_told_and_waited_for(recorded, tmp_path):
    with training(recorded):
        with serving(recorded, tmp_path) as server:
            process = subprocess.Popen(
                command("--run", server.url), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PROJECT
            )
            assert "running, epoch" in process.stdout.readline()
        assert "no connection" in process.stderr.readline()
        with serving(recorded, tmp_path, "--port", str(server.port)):
            assert "running, epoch" in process.stdout.readline()
            process.terminate()
            process.communicate(timeout=30)


def test_a_token_without_an_address_is_refused(run, tmp_path):
    done = watch("--run", str(run.directory), "--token-file", str(tmp_path))
    assert done.returncode == 78
    assert "--token-file must come with the address of a monitor" in done.stderr
