"""The report as one HTML file that loads nothing: template, styles and scripts beside this module go into it."""

import json
from pathlib import Path

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from trainer.observe import words
from trainer.observe.charts import charts, time_axis
from trainer.observe.confusion import confusion
from trainer.observe.history import History
from trainer.observe.load import Load
from trainer.observe.marks import KINDS
from trainer.observe.page import details
from trainer.observe.story import story
from trainer.observe.training_state import read_roof
from trainer.run import Run

_FOLDER = Path(__file__).parent
_BAD_RECORDS_SHOWN = 20
_SECTIONS = {
    "Learning": ("loss", "accuracy", "learning-rate"),
    "Speed": ("speed", "data-wait"),
    "Machine": ("cpu", "memory", "disk"),
}
_STRIPS = {
    "util": ("GPUs busy", "utilisation, one strip each: highest, mean and lowest reading of each moment"),
    "memory": ("GPU memory", "MB in use"), "power": ("GPU power", "W"), "temperature": ("GPU heat", "degrees Celsius"),
}  # fmt: skip


def render(run: Run, history: History, load: Load, summary: dict) -> str:
    """The page's text."""
    drawn, matrix = charts(history, load.rows(), read_roof(run.tuning, history.start)), confusion(history)
    strips = _strips(history, load)
    return environment().get_template("report.html").render(
        summary=summary,
        state=words.STATES[summary["state"]],
        state_reason=words.reason(summary["stop_reason"]) if summary["stop_reason"] else "",
        sections=_sections(drawn),
        strips=_STRIPS if strips else {},
        gpus=len(load.view["gpus"]),
        confusion=matrix,
        story=[moment | {"at": words.moment(moment["t"])} for moment in story(history)],
        verdicts=load.verdicts,
        tuning=details.tuning(run),
        money=details.money(run, history, summary["state"]),
        bad_records=_bad_records(history),
        config=details.config(run, history),
        versions=details.versions(history),
        command=details.command(run),
        **inlined({"charts": drawn, "confusion": matrix, "strips": strips}, "report.js"),
    )


def environment() -> jinja2.Environment:
    """Templates of this folder, with the words of reports as filters."""
    loader = jinja2.FileSystemLoader(_FOLDER)
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    made.trim_blocks = made.lstrip_blocks = True
    made.filters |= {
        "percent": words.percent, "number": words.number, "duration": words.duration, "moment": words.moment,
        "dollars": words.dollars, "capitalize_first": lambda text: text[:1].upper() + text[1:],
    }  # fmt: skip
    return made


def inlined(data: dict, script: str) -> dict[str, Markup]:
    """Styles, scripts and data for a page that is one file."""
    scripts = "".join(_read(name) for name in ("charts.js", "strips.js", script))
    return {
        "css": Markup(_read("report.css")), "plotly": Markup(get_plotlyjs()), "script": Markup(scripts),
        "data": _json(data),
    }  # fmt: skip


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _json(value) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _strips(history: History, load: Load) -> dict | None:
    """What report.js draws of the GPUs; None without any, or before training began."""
    if not load.view["gpus"] or not history.starts:
        return None
    unit_seconds, x_title = time_axis(history, max(load.view["t"][-1], history.ended))
    return {
        "view": load.view, "measures": list(_STRIPS), "origin": history.starts[0]["t"], "unit_seconds": unit_seconds,
        "x_title": x_title, "memory_mb": load.memory_mb,
    }  # fmt: skip


def _sections(drawn: list[dict]) -> dict[str, list[dict]]:
    by_id = {chart["id"]: with_words(chart) for chart in drawn}
    return {section: [by_id[name] for name in names if name in by_id] for section, names in _SECTIONS.items()}


def with_words(chart: dict) -> dict:
    """A chart with its legend, and with `text` for those who do not see it."""
    return chart | {"text": words.describe(chart), "legend": _legend(chart)}


def _legend(chart: dict) -> list[dict]:
    """{name, sign, colour} of each series and each kind of mark; the signs are drawn by report.css."""
    series = [
        {"name": line["name"], "sign": "area" if chart["stacked"] else line["style"], "colour": line["colour"]}
        for line in chart["series"]
    ]
    kinds = {mark["kind"] for mark in chart["marks"]}
    return series + [
        {"name": words.MARKS[kind], "sign": kind, "colour": KINDS[kind]} for kind in KINDS if kind in kinds
    ]


def _bad_records(history: History) -> list[dict]:
    shown = list(history.bad_records.values())[:_BAD_RECORDS_SHOWN]
    return [{key: event.get(key, "") for key in ("key", "offset", "reason")} for event in shown]
