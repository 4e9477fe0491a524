"""What systemd hears of a training: on a socket of the test's own, from the real trainer."""

import signal
import socket

import psutil
import pytest
from training import of_kind, start, until, write_config

from trainer.spot.stop import StopRequest
from trainer.systemd import END_SECONDS, SLOWER, telling_systemd


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """Listens where NOTIFY_SOCKET of this process and its children leads; `heard()` gives all that was said so far."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        said = []

        def heard():
            while True:
                try:
                    said.append(listener.recv(4096).decode())
                except BlockingIOError:
                    return said

        yield heard


@pytest.fixture
def told():
    """A stop request, what systemd is told, and the `report` that tells it."""
    stop, said = StopRequest(), []
    report = telling_systemd(lambda *_, **__: None, stop, said.append)
    report("start", batch_size=64)
    return stop, said, report


def test_it_is_ready_with_the_first_step_and_alive_with_each_further_sign_of_progress(told):
    _, said, report = told
    report("engine", limits="")
    assert said == []
    report("step", step=1000, images_per_second=32.0)
    report("validation", step=1001)
    report("checkpoint", step=1002, seconds=1.0)
    assert said == [f"READY=1\nWATCHDOG=1\nSTATUS=step {step}" for step in ("1,000", "1,001", "1,002")]


def test_a_stop_asks_for_the_time_that_steps_and_saves_took(told):
    stop, said, report = told
    report("step", step=1, images_per_second=32.0)  # two seconds a step
    report("checkpoint", step=1, seconds=100.0)
    report("checkpoint", step=2, seconds=70.0)
    said.clear()
    stop.ask("notice")
    assert said == [f"STOPPING=1\nEXTEND_TIMEOUT_USEC={(SLOWER * 102 + END_SECONDS) * 1e6:.0f}"]
    report("mirror_wait", checkpoint="c", seconds=60.0)
    assert said[-1].endswith(f"USEC={(SLOWER * 102 + END_SECONDS + 60) * 1e6:.0f}")


def test_who_asked_before_anybody_listened_is_heard():
    stop, said = StopRequest(), []
    stop.ask("signal")
    telling_systemd(lambda *_, **__: None, stop, said.append)
    assert said[0].startswith("STOPPING=1\n")


def test_the_trainer_is_ready_stops_in_order_and_has_no_monitor_of_its_own(tiny_recipe, systemd):
    run = write_config(tiny_recipe, epochs=1000)
    with start(run, "--no-monitor") as trainer:
        until(lambda: any(line.startswith("READY=1") for line in systemd()), trainer)
        assert of_kind(run, "step")
        assert psutil.Process(trainer.pid).children() == []
        assert not run.samples.exists()
        trainer.send_signal(signal.SIGTERM)
        assert trainer.wait(60) == 0
    stopping = next(number for number, line in enumerate(systemd()) if line.startswith("STOPPING=1"))
    assert stopping > 0
    assert systemd()[-1] == "READY=1\nSTATUS=finished, or stopped as asked"


def test_a_finished_run_is_ready_and_ends(tiny_recipe, systemd):
    run = write_config(tiny_recipe, epochs=1)
    for starts in (1, 1):
        with start(run) as trainer:
            assert trainer.wait(120) == 0
        assert len(of_kind(run, "start")) == starts
        assert systemd()[-1].startswith("READY=1\n")
        systemd().clear()


def test_a_training_that_fails_is_never_ready(tiny_recipe, systemd):
    run = write_config(tiny_recipe, data_train="/no/such.rec")
    with start(run) as trainer:
        assert trainer.wait(60) == 66
    assert systemd() == []
