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
        print(_not_trained(found))
        return
    _wait(found, timeout_seconds)
    print(_stopped(found, holder))


def _not_trained(run: Run) -> str:
    if other := lease.elsewhere(run):
        return f"{run.name} is not being trained on this machine; {lease.words(other)}."
    return f"{run.name} is not being trained."


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


def _stopped(run: Run, holder: dict) -> str:
    """How that trainer ended; TrainerError when it was otherwise than on request."""
    last = events.newest(run.events, "start", "stop")
    if last is None or last["t"] < holder["started"]:  # none of this trainer's
        if (lease.last(run) or {}).get("ended"):
            return f"{run.name} stopped before training began."
    elif last["kind"] == "stop" and last["reason"] not in ("non_finite_loss", "error"):
        return f"{run.name} stopped at step {last['step']:,}; its checkpoint is on disk."
    elif last["kind"] == "stop":
        raise TrainerError(f"{run.name} ended with {last['reason'].replace('_', ' ')}; see its log")
    raise TrainerError(f"{run.name} ended without a checkpoint of its last step; `train` continues from the newest")
