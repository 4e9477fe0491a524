"""How a run stands at this moment, in a few numbers: for those who look in from elsewhere."""

import json
import time

from trainer.observe import events
from trainer.observe.history import is_number
from trainer.observe.own_verdict import verdict_of
from trainer.observe.report import summary_of
from trainer.observe.summary import seconds_left
from trainer.run import Run

# A step, a validation or a checkpoint is told every few seconds to minutes; a large network's first step takes longer.
SILENCE_SECONDS = 900
# Of the interval between checkpoints that the trainer itself has chosen or was given.
LATE_INTERVALS = 3
NOTICE_SECONDS = 180


def standing_of(run: Run) -> dict:
    """state, top1, epochs, epochs_total, steps, steps_total, interrupted_by: as trainer.observe.summary has them.

    at, heard_at (the newest event), notice_at: unix seconds. checkpoint: {"step", "at", "interval_seconds"}.
    mirror: {"step", "error"}, None without a second place. images_per_second, seconds_left: by the newest report of a
    step. doctor: trainer.observe.own_verdict.
    alerts: what somebody should look at, as sentences. Numbers that nobody knows are None.
    """
    summary, doctor = summary_of(run), verdict_of(run)
    step, start = (events.newest(run.events, kind) or {} for kind in ("step", "start"))
    now = time.time()
    found = {
        "at": round(now, 1),
        **{key: summary[key] for key in ("run", "state", "top1", "epochs", "epochs_total", "steps", "steps_total")},
        "interrupted_by": summary["interrupted_by"],
        "images_per_second": step.get("images_per_second"),
        "seconds_left": seconds_left(step, start, "running", now) if summary["state"] == "running" else None,
        "heard_at": (events.newest(run.events) or {}).get("t"),
        "notice_at": (events.newest(run.events, "notice") or {}).get("t"),
        "checkpoint": _checkpoint(events.newest(run.events, "checkpoint")),
        "mirror": _mirror(run),
        "doctor": doctor,
    }
    return {**found, "alerts": alerts(found)}


def alerts(found: dict) -> list[str]:
    """What is wrong with a standing. Pure."""
    now, is_running, saved = found["at"], found["state"] == "running", found["checkpoint"]
    error, notice_at = (found["mirror"] or {}).get("error"), found["notice_at"]
    rules = {
        f"the run is {found['state']}: {found['interrupted_by'] or 'see its log'}":
            found["state"] in ("failed", "interrupted"),
        f"no word from the trainer for {SILENCE_SECONDS // 60} minutes":
            is_running and found["heard_at"] is not None and now - found["heard_at"] > SILENCE_SECONDS,
        f"the newest checkpoint is more than {LATE_INTERVALS} intervals old":
            is_running and saved is not None and now - saved["at"] > LATE_INTERVALS * saved["interval_seconds"],
        f"checkpoints do not reach their second place: {error}": bool(error),
        "AWS is about to take the machine away": notice_at is not None and 0 <= now - notice_at < NOTICE_SECONDS,
    }  # fmt: skip
    return [text for text, is_so in rules.items() if is_so]


def _checkpoint(event: dict | None) -> dict | None:
    if event is None:
        return None
    interval = event.get("interval_seconds")
    known = interval if is_number(interval) else SILENCE_SECONDS
    return {"step": event["step"], "at": event["t"], "interval_seconds": known}


def _mirror(run: Run) -> dict | None:
    try:
        state = json.loads(run.mirror_state.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return {"step": state.get("step"), "error": state.get("error")}
