"""`doctor`: what holds a run below its roof, from the samples of its machine."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from trainer import lease
from trainer.commands.proof import prove as prove_by_measuring
from trainer.errors import ConfigError, DataError
from trainer.observe.diagnose import ENOUGH_SAMPLES, Diagnosis, diagnose
from trainer.observe.events import read
from trainer.observe.own_verdict import LAST_SAMPLES
from trainer.observe.tail import read_last
from trainer.observe.verdicts import full_text, one_line
from trainer.run import Run, find

LOOK_SECONDS = 2.0
# In a log: a line when the verdict changes, and at least this often.
LINE_SECONDS = 30.0


def doctor(
    run: Annotated[str | None, typer.Option(help="The run's name or directory.")] = None,
    samples: Annotated[Path | None, typer.Option(help="A file of samples, one JSON object a line.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Watch the run until it ends (or Ctrl-C).")] = False,
    prove: Annotated[
        bool, typer.Option("--prove", help="Measure the input alone and the network alone, too (a minute or two).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Say what holds a training run back: the evidence, what it costs in images/s, and the next step.

    The format of the samples is in docs/samples.md; `train` writes a run's by itself.

    \b
    Example: python -m trainer doctor --run fashion-mnist
    Example: python -m trainer doctor --samples samples.jsonl --json
    """
    if (run is None) == (samples is None):
        got = "both" if run else "neither"
        raise ConfigError(f"command line: one of --run and --samples must be given, got {got}")
    if samples is not None:
        if live or prove:
            raise ConfigError(f"command line: {'--live' if live else '--prove'} must stand with --run, got --samples")
        diagnosis = diagnose(_read_file(samples))
    else:
        diagnosis = _of_run(find(run), live, prove)
    print(json.dumps(diagnosis.to_json(), indent=2) if as_json else full_text(diagnosis))


def _read_file(path: Path) -> list[dict]:
    """The samples of a file; an empty one has none. DataError when it is no file of samples."""
    if not path.exists():
        raise DataError(f"--samples must be a file, got {path}, which does not exist")
    try:
        samples = list(read(path))
        with open(path, "rb") as file:
            first = file.readline()
    except OSError as error:
        raise DataError(f"--samples must be a readable file, got {path}: {error.strerror}") from error
    if not samples and first and not first.startswith(b"{"):  # a half-written line is a file that has just begun
        raise DataError(f"--samples must hold one JSON object a line (docs/samples.md), got {path}, which has none")
    return samples


def _of_run(run: Run, live: bool, prove: bool) -> Diagnosis:
    if live or len(_last_samples(run)) < ENOUGH_SAMPLES:
        _watch(run, until_the_end=live)
    diagnosis = diagnose(_last_samples(run))
    return prove_by_measuring(run, diagnosis) if prove else diagnosis


def _last_samples(run: Run) -> list[dict]:
    return read_last(run.samples, LAST_SAMPLES)


def _watch(run: Run, until_the_end: bool) -> None:
    """Shows how it goes on standard error while the run trains; else only until there are enough samples."""
    try:
        with _shown() as show:
            while lease.holder(run) is not None:
                known = _last_samples(run)
                if len(known) >= ENOUGH_SAMPLES and not until_the_end:
                    return
                show(_state(run, known))
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        return


def _state(run: Run, known: list[dict]) -> str:
    if len(known) < ENOUGH_SAMPLES:
        return f"{run.name}: {len(known)} of the {ENOUGH_SAMPLES} samples that a first verdict needs"
    return f"{run.name}: {one_line(diagnose(known))}"


class _shown:
    """On a terminal one line that changes; in a log a line when it says something new."""

    def __enter__(self):
        self._live = Live(console=Console(stderr=True), auto_refresh=False) if sys.stderr.isatty() else None
        self._told, self._told_at = "", 0.0
        if self._live:
            self._live.start()
        return self._live_line if self._live else self._log_line

    def __exit__(self, *_):
        if self._live:
            self._live.stop()

    def _live_line(self, text: str) -> None:
        self._live.update(text, refresh=True)

    def _log_line(self, text: str) -> None:
        what = text.split(" (")[0]
        if what != self._told or time.monotonic() - self._told_at >= LINE_SECONDS:
            print(text, file=sys.stderr, flush=True)
            self._told, self._told_at = what, time.monotonic()
