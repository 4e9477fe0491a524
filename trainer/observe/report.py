"""report.json and report.html of a run, from what the run's directory holds; nothing else is asked."""

import json
import os
from pathlib import Path

from trainer.errors import DiskError
from trainer.observe import events
from trainer.observe.history import read_history
from trainer.observe.page import render
from trainer.observe.summary import summarise
from trainer.run import Run


def write_report(run: Run) -> dict:
    """Writes report.json and report.html and returns what report.json holds (see trainer.observe.summary).

    Works at any moment of a run: before its first step, while it trains, after it was killed, after it failed.
    Each file is replaced as a whole. DiskError when that fails.
    """
    history = read_history(events.read(run.events))
    summary = summarise(run, history)
    page = render(run, history, list(events.read(run.samples)), summary)
    try:
        _replace(run.report_json, json.dumps(summary, indent=2, allow_nan=False) + "\n")
        _replace(run.report_html, page)
    except OSError as error:
        raise DiskError(f"cannot write the report of {run.directory}: {error}") from error
    return summary


def _replace(path: Path, text: str) -> None:
    """Readers see the old file or the new one. The process's id keeps two writers out of each other's draft."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
