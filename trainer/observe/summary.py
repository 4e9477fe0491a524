"""report.json: the result of a run in numbers. Every definition is in `summarise`."""

from datetime import UTC, datetime

from trainer import interruption, lease
from trainer.observe.history import History, is_number
from trainer.run import Run

_STATES = {
    "finished": "finished",
    "signal": "stopped",
    "request": "stopped",
    "notice": "stopped",
    "until_step": "stopped",
    "non_finite_loss": "failed",
    "error": "failed",
}


def summarise(run: Run, history: History) -> dict:
    """What the run has come to. Numbers that nobody knows (yet) are None.

    run: its name. version: of the kit that trained last.
    state: "finished", "stopped" (on demand; continues), "failed", "running", "interrupted" (ended without a word:
        killed, or its host was lost), "not started".
    finished: whether it trained all its epochs. stop_reason: of the last start, None while running or when killed.
    top1, top5: accuracy in the last validation, 0-1. best_top1: the best of all validations in force.
    loss, validation_loss: the last ones.
    images_per_second: images of all training steps / seconds spent training, without validation and the last save;
        from the last stop event, and while there is none from the steps: sum of images / sum of (images / their speed).
    epochs, steps: done. epochs_total, steps_total: planned. samples_seen: images trained on.
    wall_seconds: of all starts together, time between them excluded.
    started, ended: first and last event, ISO 8601 in UTC; ended is None while running.
    resumes: starts after the first. checkpoints: written, all starts; checkpoints_failed: those that could not be.
    interrupted_by: why the last of the trainings that ended without a word did, as a sentence; None when none did.
    notice_to_durable_seconds: of the last stop on request, from the request to the checkpoint on disk.
    bad_records: different records skipped.
    model: paths of the exported files, {} before the export.
    per_epoch: one entry a validation in force: step, epoch, top1, top5, loss, train_loss (mean since the one before),
        cold: whether the data's volume was being read for the first time meanwhile: its speed means nothing.
    """
    last = _last(history.validations)
    stop = history.stop or {}
    steps = _steps(history)
    state = state_of(run, history)
    return {
        "run": run.name,
        "version": history.start.get("version"),
        "state": state,
        "finished": stop.get("reason") == "finished",
        "stop_reason": stop.get("reason"),
        "top1": last.get("top1"),
        "top5": last.get("top5"),
        "best_top1": max(
            (event["top1"] for event in history.validations if is_number(event.get("top1"))), default=None
        ),
        "loss": _last(history.steps).get("loss"),
        "validation_loss": last.get("loss"),
        "images_per_second": _images_per_second(history),
        "epochs": _whole(history.epoch_at(steps) or 0),
        "epochs_total": history.start.get("epochs"),
        "steps": steps,
        "steps_total": history.start.get("steps_total"),
        "samples_seen": _samples(history),
        "wall_seconds": round(stop.get("wall_seconds") or history.active_seconds, 3),
        "started": _utc(history.starts[0]["t"]) if history.starts else None,
        "ended": None if state == "running" else _utc(history.ended),
        "resumes": max(len(history.starts) - 1, 0),
        "checkpoints": len(history.checkpoints),
        "checkpoints_failed": len(history.failed_checkpoints),
        "interrupted_by": _interrupted_by(run, history, state),
        "notice_to_durable_seconds": stop.get("notice_to_durable_seconds"),
        "bad_records": len(history.bad_records),
        "model": _model_files(run),
        "per_epoch": _per_epoch(history),
    }


def state_of(run: Run, history: History) -> str:
    """`state` of `summarise`."""
    if history.stop is not None:
        return _STATES.get(history.stop.get("reason"), "failed")
    if lease.holder(run) is not None:
        return "running"
    return "interrupted" if history.starts else "not started"


def seconds_left(step: dict, start: dict, state: str, now: float) -> float | None:
    """Until the run ends, as its newest step event told it, less the time since then while it trains.

    None: unknown, as before the first step of the newest start.
    """
    if state == "finished":
        return 0.0
    left = step.get("seconds_left")
    if not is_number(left) or step["t"] < start.get("t", step["t"]):
        return None
    return max(0.0, round(left - (now - step["t"] if state == "running" else 0.0), 1))


def _interrupted_by(run: Run, history: History, state: str) -> str | None:
    """The newest one has not been told yet: that takes another start. A trainer on another machine may still live."""
    untold = interruption.why(run, lease.last(run)) if state == "interrupted" else None
    if untold and untold["reason"] == "host_lost" and (other := lease.elsewhere(run)):
        return lease.words(other)
    newest = untold or _last(history.interruptions)
    return interruption.words(newest) if newest else None


def _steps(history: History) -> int:
    known = [event["step"] for event in history.steps + history.validations]
    return max([*known, (history.stop or {}).get("step") or 0])


def _images_per_second(history: History) -> float | None:
    stop = history.stop or {}
    samples, seconds = stop.get("samples"), stop.get("train_seconds")
    if not samples or not seconds:
        samples, seconds = _trained(history.steps)
    return round(samples / seconds, 2) if seconds else None


def _trained(steps: list[dict]) -> tuple[float, float]:
    """Images and seconds of the steps that know their speed."""
    samples = seconds = before = 0
    for event in steps:
        now, speed = event.get("samples"), event.get("images_per_second")
        if is_number(now) and is_number(speed) and speed > 0:
            samples += now - before
            seconds += (now - before) / speed
        before = now if is_number(now) else before
    return samples, seconds


def _samples(history: History) -> int:
    return (history.stop or {}).get("samples") or _last(history.steps).get("samples", 0)


def _per_epoch(history: History) -> list[dict]:
    rows, after = [], 0
    for event in history.validations:
        steps = [step for step in history.steps if after < step["step"] <= event["step"]]
        losses = [step["loss"] for step in steps if is_number(step.get("loss"))]
        train_loss = sum(losses) / len(losses) if losses else None
        known = {key: event.get(key) for key in ("step", "epoch", "top1", "top5", "loss", "seconds")}
        cold = any(step.get("cold_volume") is True for step in steps)
        rows.append({**known, "train_loss": train_loss, "cold": cold})
        after = event["step"]
    return rows


def _model_files(run: Run) -> dict[str, str]:
    prefix = run.model_prefix
    files = {
        "symbol": prefix.with_name(f"{prefix.name}-symbol.json"),
        "parameters": prefix.with_name(f"{prefix.name}-0000.params"),
        "card": run.model_card,
    }
    return {what: str(path.resolve()) for what, path in files.items() if path.is_file()}


def _last(events: list[dict]) -> dict:
    return events[-1] if events else {}


def _whole(epochs: float) -> float | int:
    return int(epochs) if float(epochs).is_integer() else round(epochs, 4)


def _utc(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
