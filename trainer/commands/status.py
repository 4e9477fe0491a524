"""`status`: how a run stands at this moment."""

import json
from typing import Annotated

import typer

from trainer.observe import words
from trainer.observe.standing import standing_of
from trainer.run import find


def status(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say how a run stands: progress, speed and roof, the newest checkpoint, what somebody should look at.

    Example: python -m trainer status --run fashion-mnist
    """
    found = standing_of(find(run))
    text = "\n".join(f"{what:11}{text}" for what, text in _lines(found))
    print(json.dumps({**found, "text": text}, indent=2) if as_json else text)


def _lines(found: dict):
    yield "run", f"{found['run']}: {words.STATES[found['state']][0].lower()}"
    yield "progress", _progress(found)
    yield "speed", _speed(found)
    yield "checkpoint", _checkpoint(found)
    if found["doctor"]:
        yield "doctor", found["doctor"]["text"]
    yield "alerts", "; ".join(found["alerts"]) or "none"


def _progress(found: dict) -> str:
    left = f", {words.duration(found['seconds_left'])} left" if found["seconds_left"] is not None else ""
    top1 = f", top-1 {words.percent(found['top1'])}" if found["top1"] is not None else ""
    return (
        f"epoch {words.number(found['epochs'])} of {words.number(found['epochs_total'])}, "
        f"step {words.number(found['steps'])} of {words.number(found['steps_total'])}{top1}{left}"
    )


def _speed(found: dict) -> str:
    doctor = found["doctor"] or {}
    speed = f"{words.number(found['images_per_second'])} images/s"
    if not doctor.get("attained"):
        return speed
    roof = words.number(doctor["roof_images_per_second"])
    return f"{speed}, {words.percent(doctor['attained'], 0)} of the roof of {roof}"


def _checkpoint(found: dict) -> str:
    saved, mirror = found["checkpoint"], found["mirror"]
    if saved is None:
        return "none yet"
    there = "" if mirror is None else f"; the second place has step {words.number(mirror['step'])}"
    return f"step {words.number(saved['step'])}, {words.duration(found['at'] - saved['at'])} old{there}"
