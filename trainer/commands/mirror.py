"""`mirror`: brings a run's checkpoints to a second place, and back."""

import os
import signal
import socket
import sys
import threading
import time
import uuid
from contextlib import nullcontext
from functools import partial
from typing import Annotated

import typer

from trainer import lease
from trainer.config import Config, load
from trainer.errors import ConfigError
from trainer.run import Run, find
from trainer.spot.place import PlaceError

# Decoding and training come first.
NICENESS = 10


def mirror(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    fetch: Annotated[bool, typer.Option("--fetch", help="Bring the newest checkpoint here instead.")] = False,
    owner: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Copy a run's checkpoints to its checkpoint_mirror until standard input ends. `train` starts it by itself.

    Example: python -m trainer mirror --run fashion-mnist < /dev/null
    """
    found = find(run)
    config = load(found.config)
    if config.checkpoint_mirror is None:
        raise ConfigError(
            f'{found.config}: checkpoint_mirror must be "file:///directory" or "s3://bucket/prefix", got nothing'
        )
    os.nice(NICENESS)
    if owner is not None:  # a service manager stops trainer and mirror at once: the mirror ends when the trainer has
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fetch:
        from trainer.spot.fetch import fetch as bring_here

        if owner is not None:
            threading.Thread(target=_end_with_the_trainer, daemon=True).start()
        with lease.hold(found) if owner is None else nullcontext():  # else the trainer has it
            bring_here(found, config, partial(print, flush=True))
    else:
        _follow(found, config, owner)


def _follow(run: Run, config: Config, owner: str | None) -> None:
    from trainer.spot.follow import follow
    from trainer.spot.orders import Orders

    who = {"id": owner or uuid.uuid4().hex, "host": socket.gethostname(), "started": round(time.time(), 3)}
    orders = Orders(sys.stdin.fileno(), config.checkpoint_mirror_mb_per_second)
    state = follow(run, config, who, orders, patient=owner is not None)
    if state.error:
        raise PlaceError(state.error)
    print(f"{config.checkpoint_mirror} holds step {state.step:,}" if state.checkpoint else "there is no checkpoint yet")


def _end_with_the_trainer() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)
