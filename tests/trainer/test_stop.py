"""Requests to stop: who may ask, and what a signal does."""

import signal
import subprocess
import sys
import time

import pytest

from trainer.spot.stop import StopRequest

# Its main thread hangs in C for ever, where no handler of Python's own runs: a mutex that it holds itself.
HANGING = """
import ctypes, os, signal
from trainer.spot.stop import stop_on_signals
stop = stop_on_signals()
asked, ask = [], stop.ask
def told(reason):
    ask(reason)
    asked.append(reason)
    os.write(1, f"asked {len(asked)}: {stop.reason}\\n".encode())
stop.ask = told
{before}
lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
lock(mutex)
os.write(1, b"ready\\n")
lock(mutex)
"""


def hanging(before: str = "") -> subprocess.Popen:
    program = HANGING.replace("{before}", before)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    said = {process.stdout.readline() for _ in range(2 if before else 1)}
    assert "ready\n" in said
    return process


def test_nobody_has_asked():
    stop = StopRequest()
    assert (bool(stop), stop.reason, stop.asked_at, stop.deadline, stop.take_save()) == (False, None, None, None, False)


def test_the_first_reason_counts_and_the_nearest_deadline():
    stop = StopRequest()
    before = time.monotonic()
    stop.ask("notice", deadline=before + 120)
    first = stop.asked_at
    assert before <= first <= time.monotonic()
    stop.ask("signal")
    stop.ask("reboot", deadline=before + 60)
    assert (stop.reason, stop.asked_at, stop.deadline) == ("notice", first, before + 60)


def test_a_checkpoint_is_asked_for_without_a_stop():
    stop = StopRequest()
    stop.ask_save()
    stop.ask_save()
    assert not stop
    assert stop.take_save() is True
    assert stop.take_save() is False


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_at_once_and_the_second_ends_even_a_hanging_process(first):
    with hanging() as process:
        process.send_signal(first)
        assert process.stdout.readline() == "asked 1: signal\n"
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 128 + signal.SIGTERM


def test_a_first_signal_after_a_notice_ends_nothing():
    with hanging("stop.ask('notice')") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked 2: notice\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 128 + signal.SIGINT


def test_other_signals_do_not_count():
    with hanging("signal.signal(signal.SIGUSR1, lambda *_: None); stop.ask('notice')") as process:
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM):
            process.send_signal(number)
        assert process.stdout.readline() == "asked 2: notice\n"
        assert process.poll() is None
        process.kill()
