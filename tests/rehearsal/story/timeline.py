"""What is told while the rehearsal plays: a line for each thing that happened, with the moment and how long it took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table
from rich.text import Text

STYLES = {"AWS": "yellow", "you": "bold cyan", "kit": "green", "host": "magenta", "seen": "blue"}


class Timeline:
    """`rows`: [{"at_seconds", "who", "words", "took_seconds" (None: a moment)}]. A terminal also sees what goes on."""

    def __init__(self, console: Console):
        self.console = console
        self.rows: list[dict] = []
        self._started = time.monotonic()
        self._doing = console.status("")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def say(self, who: str, words: str, took_seconds: float | None = None) -> None:
        at = self.seconds - (took_seconds or 0)
        took = None if took_seconds is None else round(took_seconds, 1)
        self.rows.append({"at_seconds": round(at, 1), "who": who, "words": words, "took_seconds": took})
        line = Text(f"{_clock(at)}  ")
        line.append(f"{who:<5}", STYLES[who])
        line.append(f" {words}")
        if took_seconds is not None:
            line.append(f"  ({took_seconds:.0f} s)", "dim")
        self.console.print(line, soft_wrap=True)

    def chapter(self, words: str) -> None:
        self.console.print(Text(f"\n{words}", "bold"), soft_wrap=True)

    def now(self, words: str) -> None:
        """What goes on at the moment; for terminals only."""
        self._doing.update(f"[dim]{_clock(self.seconds)}  {words.replace('[', '(')}")

    @contextmanager
    def doing(self, words: str) -> Iterator[None]:
        self.now(words)
        if not self.console.is_terminal:
            yield
            return
        with self._doing:
            yield


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


def table(outcomes: list[dict]) -> Table:
    """Of what befell the run, what became of it and what it cost."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("what happened", "left"), ("how it ended", "left"), ("steps trained twice", "right"),
                          ("minutes lost", "right"), ("$", "right")):  # fmt: skip
        drawn.add_column(name, justify=justify, overflow="fold")
    for row in outcomes:
        cells = (f"{row['steps_lost']:,}", f"{row['seconds_lost'] / 60:.1f}", f"{row['usd']:.3f}")
        drawn.add_row(row["what"], row["ended"], *cells)
    return drawn
