"""What a run's events say, across all its starts.

A start that resumes at step N undoes what came after N: the steps and validations of earlier starts beyond N are
superseded, whether or not they were repeated yet.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

# Where each kind is kept; others are passed over.
_LISTS = {
    "start": "starts", "step": "steps", "validation": "validations", "checkpoint": "checkpoints",
    "checkpoint_failed": "failed_checkpoints", "interrupted": "interruptions", "stop": "stops",
}  # fmt: skip
_WITH_STEP = ("step", "validation", "checkpoint")


@dataclass
class History:
    """Events by kind, oldest first."""

    starts: list[dict] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)
    """In force: each step once."""
    validations: list[dict] = field(default_factory=list)
    """In force."""
    superseded_steps: list[dict] = field(default_factory=list)
    checkpoints: list[dict] = field(default_factory=list)
    """All that were ever written."""
    failed_checkpoints: list[dict] = field(default_factory=list)
    interruptions: list[dict] = field(default_factory=list)
    """Why trainings ended without a word, each told by the start after it."""
    stops: list[dict] = field(default_factory=list)
    bad_records: dict = field(default_factory=dict)
    """By key: the same record is met again each epoch."""
    stop: dict | None = None
    """Of the last start; None while it runs and when it was killed."""
    active_seconds: float = 0.0
    """Wall time of all starts, without the time between them."""
    ended: float | None = None
    """The time of the last event."""

    @property
    def start(self) -> dict:
        """The last start, empty when there is none."""
        return self.starts[-1] if self.starts else {}

    @property
    def all_steps(self) -> list[dict]:
        """Steps with what was superseded, in the order of time."""
        return sorted(self.steps + self.superseded_steps, key=lambda event: event["t"])

    def epoch_at(self, step: int, t: float = float("inf")) -> float | None:
        """Epochs done after a step that was made before t, by the images seen; None when its start does not tell.

        Starts may differ in their batch size. Logs of version 0.1.0 have neither `examples` nor `resumed_samples`.
        """
        before = [start for start in self.starts if start["t"] <= t and resumed_step(start) <= step]
        start = before[-1] if before else {}
        examples, batch = start.get("examples", start.get("records_train")), start.get("batch_size")
        if not (is_number(examples) and is_number(batch) and is_number(start.get("epochs")) and examples > 0):
            return None
        resumed = start.get("resumed_samples", resumed_step(start) * batch)
        return min((resumed + (step - resumed_step(start)) * batch) / examples, start["epochs"])


def read_history(events: Iterable[dict]) -> History:
    """The history that the events tell. Unknown kinds, and events without a number that they need, are passed over."""
    history = History()
    for event in events:
        if is_usable(event):
            add(history, event)
    return history


def is_number(value) -> bool:
    """Whether it is a finite number; JSON readers let NaN and 1e999 through."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def resumed_step(start: dict) -> int:
    """The step after which a start went on; 0 when it began afresh."""
    step = start.get("resumed_step")
    return step if is_number(step) else 0


def is_usable(event: dict) -> bool:
    """Whether it is of a kind that a history keeps, and has the numbers that it needs."""
    kind = event.get("kind")
    known = isinstance(kind, str) and (kind in _LISTS or kind == "bad_record")
    return known and is_number(event.get("t")) and (kind not in _WITH_STEP or is_number(event.get("step")))


def add(history: History, event: dict) -> None:
    """One more usable event, newer than all before."""
    kind = event["kind"]
    if kind == "interrupted":  # told by the start after it: its time is not the end of anything
        history.interruptions.append(event)
        return
    if kind == "start":
        _supersede(history, event)
    elif history.ended is not None:
        history.active_seconds += max(event["t"] - history.ended, 0)
    history.ended = event["t"]
    if kind == "bad_record":
        history.bad_records[str(event.get("key"))] = event
        return
    getattr(history, _LISTS[kind]).append(event)
    if kind == "stop":
        history.stop = event


def _supersede(history: History, start: dict) -> None:
    resumed = resumed_step(start)
    history.superseded_steps += [event for event in history.steps if event["step"] > resumed]
    history.steps = [event for event in history.steps if event["step"] <= resumed]
    history.validations = [event for event in history.validations if event["step"] <= resumed]
    history.stop = None
