"""report.json and report.html of a run, from what the run's directory holds; nothing else is asked."""

import json

from trainer.errors import DiskError
from trainer.files import write_whole
from trainer.observe import events
from trainer.observe.history import read_history
from trainer.observe.own_verdict import verdict_of
from trainer.observe.page import render
from trainer.observe.summary import summarise
from trainer.run import Run


def summary_of(run: Run) -> dict:
    """What report.json would hold now."""
    return summarise(run, read_history(events.read(run.events)))


def write_report(run: Run) -> dict:
    """Writes report.json and report.html and returns what report.json holds (see trainer.observe.summary).

    `doctor` in it: what the run attained of its roof, and why not more (trainer.observe.own_verdict); None: not known.

    Works at any moment of a run: before its first step, while it trains, after it was killed, after it failed.
    Each file is replaced as a whole. DiskError when that fails.
    """
    history = read_history(events.read(run.events))
    summary = {**summarise(run, history), "doctor": verdict_of(run)}
    page = render(run, history, list(events.read(run.samples)), summary)
    try:
        write_whole(run.report_json, json.dumps(summary, indent=2, allow_nan=False) + "\n")
        write_whole(run.report_html, page)
    except OSError as error:
        raise DiskError(f"cannot write the report of {run.directory}: {error}") from error
    return summary
