"""`stop`: asks a running trainer to stop and waits until its checkpoint is on disk."""

import os
import signal
import socket
import time
from typing import Annotated

import typer

from trainer import lease
from trainer.errors import ConfigError, TrainerError
from trainer.files import write_whole
from trainer.observe import events
from trainer.run import Run, find


def stop(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    timeout_seconds: Annotated[float, typer.Option(help="How long to wait for the checkpoint.")] = 120.0,
) -> None:
    """Stop a running training: it finishes its step, writes a checkpoint and exits. `train` continues from there.

    Example: python -m trainer stop --run fashion-mnist
    """
    found = find(run)
    holder = lease.holder(found)
    if holder is None or not _ask(found, holder):
        print(f"{found.name} is not being trained.")
        return
    _wait(found, timeout_seconds)
    print(f"{found.name} stopped at step {_stopped_at(found):,}; its checkpoint is on disk.")


def _ask(run: Run, holder: dict) -> bool:
    """One signal to each process, however often it is asked: the second would end it at once. False: it is gone."""
    if holder["host"] != socket.gethostname():
        raise ConfigError(f"--run must be trained on this machine, got {run.name}, trained on {holder['host']}")
    asked = f"{holder['pid']} {holder['started']}\n"
    if run.stop_asked.exists() and run.stop_asked.read_text() == asked:
        return True
    try:
        os.kill(holder["pid"], signal.SIGTERM)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        raise ConfigError(f"--run must be trained by this user, got {run.name}, process {holder['pid']}") from error
    write_whole(run.stop_asked, asked)
    return True


def _wait(run: Run, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while lease.holder(run) is not None:
        if time.monotonic() > deadline:
            raise TrainerError(f"{run.name} has not stopped within {timeout_seconds:g} s")
        time.sleep(0.1)


def _stopped_at(run: Run) -> int:
    """The step of its checkpoint; TrainerError when the training ended otherwise than on request."""
    last = None
    for event in events.read(run.events):
        last = event if event.get("kind") in ("start", "stop") else last
    if last is None or last["kind"] == "start":
        raise TrainerError(f"{run.name} ended without a checkpoint of its last step; `train` continues from the newest")
    if last["reason"] in ("non_finite_loss", "error"):
        raise TrainerError(f"{run.name} ended with {last['reason'].replace('_', ' ')}; see its log")
    return last["step"]
