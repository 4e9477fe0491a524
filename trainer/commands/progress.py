"""How far a long command is: a bar on a terminal, a plain line now and then in a log. Both on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 3.0
_SECONDS_BETWEEN_DRAWS = 0.1

Advance = Callable[[float], None]


@contextmanager
def progress(what: str, *, total: float, unit: str) -> Iterator[Advance]:
    """Gives a function to call with the number of units just done."""
    if sys.stderr.isatty():
        with _bar(what, total, unit) as advance:
            yield advance
    else:
        yield _lines(what, total, unit)


@contextmanager
def _bar(what: str, total: float, unit: str) -> Iterator[Advance]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield _every(_SECONDS_BETWEEN_DRAWS, lambda done: bar.update(task, completed=done))
        bar.update(task, completed=total)


def _lines(what: str, total: float, unit: str) -> Advance:
    begun = time.monotonic()

    def show(done: float) -> None:
        speed = done / max(time.monotonic() - begun, 1e-9)
        left = (total - done) / max(speed, 1e-9)
        print(
            f"{what}: {done:,.0f} of {total:,.0f} {unit}, {speed:,.0f}/s, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

    return _every(_SECONDS_BETWEEN_LINES, show)


def _every(seconds: float, show: Callable[[float], None]) -> Advance:
    """Adds up what is done and shows it at most once in so many seconds: cheap to call for each picture."""
    done, shown = 0.0, time.monotonic()

    def advance(count: float) -> None:
        nonlocal done, shown
        done += count
        if time.monotonic() - shown >= seconds:
            shown = time.monotonic()
            show(done)

    return advance
