"""`idle`: whether a rented host can be powered off, as the exit code."""

import subprocess
import time
from pathlib import Path
from typing import Annotated

import typer

from trainer.errors import TrainerError
from trainer.observe.idle import is_due, is_safe, standing, words
from trainer.run import Run

TIMER = "trainer-power-off.timer"


def idle(
    run: Annotated[Path, typer.Option(help="The run's directory, which need not be there yet.")],
    finished_minutes: Annotated[float, typer.Option(min=0, help="After the end of a finished run.")] = 10.0,
    idle_minutes: Annotated[float, typer.Option(min=0, help="After the last step of one that is not.")] = 60.0,
    mirrored: Annotated[
        bool, typer.Option("--mirrored", help="Ask whether its newest checkpoint is in the second place, too.")
    ] = False,
) -> None:
    """Exit with 0 when this host has trained nothing for so long that it can be powered off, else with 1.

    The host is watched since trainer-power-off.timer was started.

    Example: python -m trainer idle --run run/imagenet --idle-minutes 60
    """
    limits = (finished_minutes * 60, idle_minutes * 60)
    now = standing(Run(run), _watched_seconds())
    print(words(now, *limits))
    if not (is_safe(now) if mirrored else is_due(now, *limits)):
        raise typer.Exit(1)


def _watched_seconds() -> float:
    command = ["systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "--value", TIMER]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", "") or str(error)).strip()
        raise TrainerError(f"cannot tell since when {TIMER} watches this host: {why}") from error
    began = int(done.stdout) / 1e6  # 0: it does not
    return time.monotonic() - began if began else 0.0
