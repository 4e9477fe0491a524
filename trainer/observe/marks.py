"""Moments worth a mark in a chart: checkpoints, starts after the first, stops, ends without a word."""

from collections.abc import Callable, Iterator

from trainer import interruption
from trainer.observe.history import History, is_number, resumed_step

MARKS_PER_KIND = 100
# Their colours in page/report.css.
KINDS = {"checkpoint": "grey", "resume": "violet", "stop": "text", "interrupted": "bad"}


def marks(history: History, place: Callable[[dict, int], float | None]) -> list[dict]:
    """{kind, x, label} of each moment; `place(event, step)` tells its x, None when it has none in this chart.

    A run that finished stops where its curves end: that needs no mark. Of more than MARKS_PER_KIND, every n-th.
    """
    placed = [{"kind": kind, "x": place(event, step), "label": label} for kind, event, step, label in _moments(history)]
    known = [mark for mark in placed if mark["x"] is not None]
    return [mark for kind in KINDS for mark in _some([mark for mark in known if mark["kind"] == kind])]


def _moments(history: History) -> Iterator[tuple[str, dict, int, str]]:
    for event in history.checkpoints:
        yield "checkpoint", event, event["step"], f"checkpoint, step {event['step']:,}"
    for event in history.starts[1:]:
        yield "resume", event, resumed_step(event), f"went on from step {resumed_step(event):,}"
    for event in history.stops:
        if event.get("reason") != "finished":
            yield "stop", event, event.get("step") or 0, f"stop: {event.get('reason')}"
    for event in history.interruptions:
        if is_number(event.get("seen")):  # its own time is that of the next start
            yield "interrupted", event | {"t": event["seen"]}, event.get("step") or 0, interruption.words(event)


def _some(marks: list[dict]) -> list[dict]:
    every = -(-len(marks) // MARKS_PER_KIND) or 1
    return marks[::every]
