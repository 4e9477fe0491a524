"""`report`: what a run has come to, in numbers and pictures."""

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.observe import words
from trainer.observe.report import write_report
from trainer.run import Run, find


def report(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json instead.")] = False,
) -> None:
    """Write a run's report.json and report.html again, and print the result. Works while the run trains, too.

    Example: python -m trainer report --run fashion-mnist
    """
    found = find(run)
    print_result(found, write_report(found), as_json)


def print_result(run: Run, summary: dict, as_json: bool) -> None:
    """What a run has come to, on standard output."""
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        _print({**_headline(summary), "report": str(run.report_html)})


def _headline(summary: dict) -> dict[str, str]:
    return {
        "run": summary["run"],
        "state": words.STATES[summary["state"]][0],
        **({"reason": summary["interrupted_by"]} if summary["state"] == "interrupted" else {}),
        "top-1": words.percent(summary["top1"]),
        "top-5": words.percent(summary["top5"]),
        "images/s": words.number(summary["images_per_second"]),
        "epochs": words.number(summary["epochs"]),
        "steps": f"{words.number(summary['steps'])} of {words.number(summary['steps_total'])}",
        "wall time": words.duration(summary["wall_seconds"]),
        **({"limit": summary["doctor"]["text"]} if summary.get("doctor") else {}),
    }


def _print(lines: dict[str, str]) -> None:
    if not sys.stdout.isatty():
        for what, value in lines.items():
            print(f"{what}: {value}")
        return
    table = Table(show_header=False, box=None)
    for what, value in lines.items():
        table.add_row(what, Text(value))
    Console().print(table, soft_wrap=True)
