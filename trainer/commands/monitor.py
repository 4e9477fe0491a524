"""`monitor`: samples the machine while a run trains."""

from typing import Annotated

import typer

from trainer.observe.monitor import MonitorRunningError
from trainer.observe.monitor import monitor as sample_until_trainer_ends
from trainer.run import find


def monitor(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    interval_seconds: Annotated[float, typer.Option(min=0.1, help="Time between two samples.")] = 1.0,
) -> None:
    """Write the machine's load to the run's samples.jsonl until its trainer ends. `train` starts it by itself.

    Example: python -m trainer monitor --run fashion-mnist
    """
    found = find(run)
    try:
        written = sample_until_trainer_ends(found, interval_seconds)
    except MonitorRunningError as error:
        print(error)
        return
    print(f"{found.name} is not being trained (any more); {written} samples written to {found.samples}.")
