"""`report`: what a run has come to, in numbers and pictures."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.errors import ConfigError
from trainer.observe import words
from trainer.observe.compare import COLOURS, compare, rows, to_json, write_comparison
from trainer.observe.report import write_report
from trainer.run import Run, find


def report(
    runs: Annotated[list[str] | None, typer.Argument(help="With --compare: names or directories of runs.")] = None,
    run: Annotated[str | None, typer.Option(help="The run's name or directory.")] = None,
    side_by_side: Annotated[bool, typer.Option("--compare", help="Put runs side by side in one page.")] = False,
    to: Annotated[Path, typer.Option(help="Where that page goes.")] = Path("comparison.html"),
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json, or the comparison, as JSON.")] = False,
) -> None:
    """Write a run's report.json and report.html again, and print the result. Works while the run trains, too.

    \b
    Example: python -m trainer report --run fashion-mnist
    Example: python -m trainer report --compare first second
    """
    if side_by_side:
        _compare([*([run] if run else []), *(runs or [])], to, as_json)
        return
    if run is None or runs:
        raise ConfigError(f"command line: --run must name one run, or --compare several, got {runs or 'neither'}")
    found = find(run)
    print_result(found, write_report(found), as_json)


def _compare(names: list[str], to: Path, as_json: bool) -> None:
    if not 2 <= len(names) <= len(COLOURS):
        raise ConfigError(f"command line: --compare must have 2 to {len(COLOURS)} runs, got {len(names)}")
    compared = compare([find(name) for name in names])
    write_comparison(compared, to)
    if as_json:
        print(to_json(compared))
        return
    _print_columns([one["run"] for one in compared["runs"]], [*rows(compared), *_settings(compared)])
    print(f"comparison: {to.resolve()}")


def _settings(compared: dict) -> list[tuple[str, list[str]]]:
    return [(key, ["–" if one is None else one for one in row]) for key, row in compared["settings"].items()]


def _print_columns(names: list[str], lines: list[tuple[str, list[str]]]) -> None:
    if not sys.stdout.isatty():
        for what, values in [("run", names), *lines]:
            print("\t".join([what, *values]))
        return
    table = Table("", *map(Text, names), box=None)
    for what, values in lines:
        table.add_row(what, *map(Text, values))
    Console().print(table)


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
        **({"cost": words.dollars(summary["cost"]["usd"])} if summary.get("cost") else {}),
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
