"""What happened to a run, moment by moment, in words."""

from trainer import interruption
from trainer.observe.history import History, is_number, resumed_step
from trainer.observe.words import reason


def story(history: History) -> list[dict]:
    """{t, what, step, reason} of starts, stops and ends without a word, in order; reason may be empty."""
    moments = [
        {"t": start["t"], "what": "start", "step": resumed_step(start), "reason": _changes(start)}
        for start in history.starts
    ]
    moments += [
        {"t": _seen(event), "what": "interrupted", "step": event.get("step"), "reason": interruption.words(event)}
        for event in history.interruptions
    ]
    moments += [
        {"t": stop["t"], "what": "stop", "step": stop.get("step"), "reason": reason(stop.get("reason"))}
        for stop in history.stops
    ]
    return sorted(moments, key=lambda moment: moment["t"])


def _changes(start: dict) -> str:
    return "; ".join(start.get("explained") or [])


def _seen(event: dict) -> float:
    """An interruption is told by the next start; it was before."""
    return event["seen"] if is_number(event.get("seen")) else event["t"]
