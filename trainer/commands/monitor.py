"""`monitor`: samples the machine while a run trains, or serves its page and metrics."""

from pathlib import Path
from typing import Annotated

import typer

from trainer.errors import ConfigError
from trainer.observe.monitor import MonitorRunningError
from trainer.observe.monitor import monitor as sample_until_trainer_ends
from trainer.run import Run, find

_HIDDEN = {"show_default": False}


def monitor(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve the page and /metrics here (0: any).", **_HIDDEN)
    ] = None,
    address: Annotated[str, typer.Option(help="Loopback or private address to serve on.")] = "127.0.0.1",
    token_file: Annotated[
        Path | None, typer.Option(help="Ask clients for the token in this file (bearer, or password).", **_HIDDEN)
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="Serve https with this PEM chain.", **_HIDDEN)] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key.", **_HIDDEN)] = None,
    interval_seconds: Annotated[float, typer.Option(min=0.1, help="Time between two samples.")] = 1.0,
    after_seconds: Annotated[float, typer.Option(min=0, help="How long to go on after the trainer.")] = 0.0,
) -> None:
    """Write the machine's load to the run's samples.jsonl until its trainer ends. `train` starts it by itself.

    With --port, serve the live page and /metrics instead, until it is told to end: also of a run that is over, and
    whoever samples. A run that is trained and has no sampler gets one.

    \b
    Example: python -m trainer monitor --run fashion-mnist --port 8470
    Example: python -m trainer monitor --run fashion-mnist
    """
    found = find(run)
    if port is not None:
        _serve(found, address, port, token_file, tls_certificate, tls_key)
        return
    if address != "127.0.0.1" or token_file or tls_certificate or tls_key:
        raise ConfigError("--address, --token-file, --tls-certificate and --tls-key must come with --port, got none")
    _sample(found, interval_seconds, after_seconds)


def _serve(run: Run, address: str, port: int, token_file, certificate, key) -> None:
    from trainer.observe.serve import place, serve  # a second of imports that the sampler does not need

    serve(run, place(address, port, token_file, certificate, key), say=lambda line: print(line, flush=True))


def _sample(run: Run, interval_seconds: float, after_seconds: float) -> None:
    try:
        written = sample_until_trainer_ends(run, interval_seconds, after_seconds=after_seconds)
    except MonitorRunningError as error:
        print(error)
        return
    print(f"{run.name} is not being trained (any more); {written} samples written to {run.samples}.")
