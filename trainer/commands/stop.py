"""`stop`: asks a running trainer to stop and waits until its checkpoint is on disk."""

import os
import signal
import socket
import time
from typing import Annotated

import typer

from trainer import lease
from trainer.errors import ConfigError, TrainerError
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
    if holder is None:
        print(f"{found.name} is not being trained.")
        return
    _ask(found, holder)
    _wait(found, timeout_seconds)
    print(f"{found.name} stopped at step {_last_step(found)}; its checkpoint is on disk.")


def _ask(run: Run, holder: dict) -> None:
    if holder.get("host") != socket.gethostname():
        raise ConfigError(f"--run must be trained on this machine, got {run.name}, trained on {holder.get('host')}")
    os.kill(holder["pid"], signal.SIGTERM)


def _wait(run: Run, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while lease.holder(run) is not None:
        if time.monotonic() > deadline:
            raise TrainerError(f"{run.name} has not stopped within {timeout_seconds:g} s")
        time.sleep(0.1)


def _last_step(run: Run) -> int:
    return max((event["step"] for event in events.read(run.events) if event.get("kind") == "checkpoint"), default=0)
