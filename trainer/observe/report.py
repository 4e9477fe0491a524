"""report.json, report.html and load.json of a run, from what the run's directory holds; nothing else is asked."""

import json
from dataclasses import asdict

from trainer.errors import DiskError
from trainer.files import write_whole
from trainer.observe import events
from trainer.observe.costs import cost_of
from trainer.observe.history import History, read_history
from trainer.observe.load import load_of
from trainer.observe.page import render
from trainer.observe.summary import summarise
from trainer.run import Run


def summary_of(run: Run) -> dict:
    """What report.json would hold now."""
    return summarise(run, read_history(events.read(run.events)))


def with_verdict(run: Run, history: History, doctor: dict | None) -> dict:
    """What report.json holds, with `doctor` and `cost`."""
    summary = summarise(run, history)
    return {**summary, "cost": cost_of(run, history, summary["state"]), "doctor": doctor}


def write_report(run: Run) -> dict:
    """Writes report.json, report.html and load.json and returns what report.json holds (see trainer.observe.summary).

    `cost` in it: trainer.observe.costs.cost_of.
    `doctor` in it: what the run attained of its roof, and why not more (trainer.observe.own_verdict); None: not known.

    Works at any moment of a run: before its first step, while it trains, after it was killed, after it failed.
    Each file is replaced as a whole. DiskError when that fails.
    """
    history = read_history(events.read(run.events))
    load = load_of(run)
    summary = with_verdict(run, history, load.doctor)
    page = render(run, history, load, summary)
    try:
        write_whole(run.load, json.dumps(asdict(load), separators=(",", ":"), allow_nan=False))
        write_whole(run.report_json, json.dumps(summary, indent=2, allow_nan=False) + "\n")
        write_whole(run.report_html, page)
    except OSError as error:
        raise DiskError(f"cannot write the report of {run.directory}: {error}") from error
    return summary
