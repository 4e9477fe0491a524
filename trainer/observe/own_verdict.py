"""A run's own verdict: told once while it trains, at the end of its first epoch, and in its report."""

from collections.abc import Callable
from contextlib import suppress
from math import floor

from trainer.observe.diagnose import Diagnosis, diagnose
from trainer.observe.tail import read_last
from trainer.observe.verdicts import one_line
from trainer.run import Run

# How it is doing now is told by so many of the newest samples (a quarter of an hour).
LAST_SAMPLES = 900
# Fewer are no ground for a word that nobody asked for.
LEAST_SAMPLES = 5


def telling_verdict(run: Run, report: Callable[..., None]) -> Callable[..., None]:
    """`report` with one more event, `verdict`, when the first epoch of this process is over.

    When there are too few samples then (an epoch of seconds), it is the first epoch that ends with enough of them.
    """
    epoch: int | None = None
    told = False

    def reporting(kind: str, **fields) -> None:
        nonlocal epoch, told
        report(kind, **fields)
        now = floor(fields["epoch"]) if kind == "step" else epoch
        ended = kind == "validating" or (kind == "step" and epoch is not None and now > epoch)
        epoch = now
        if ended and not told:
            with suppress(Exception):  # training goes on whatever the samples hold
                told = _tell(run, report, fields["step"])

    return reporting


def _tell(run: Run, report: Callable[..., None], step: int) -> bool:
    found = verdict_of(run)
    if found:
        report("verdict", step=step, **found)
    return found is not None


def verdict_of(run: Run) -> dict | None:
    """What events and report.json say of a run's limit (`text` for people); None when its samples say too little."""
    samples = read_last(run.samples, LAST_SAMPLES)
    if len(samples) < LEAST_SAMPLES:
        return None
    found = diagnose(samples)
    return None if found.images_per_second is None else _fields(found)


def _fields(found: Diagnosis) -> dict:
    known = found.to_json()
    keys = ("verdict", "ranked", "evidence", "advice", "images_per_second", "roof_images_per_second")
    return {key: known[key] for key in (*keys, "roof_is_estimated", "attained")} | {"text": one_line(found)}
