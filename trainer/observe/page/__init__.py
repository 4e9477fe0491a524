"""The report as one HTML file that loads nothing: template, styles and scripts beside this module go into it."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from trainer import interruption
from trainer.observe import words
from trainer.observe.charts import charts
from trainer.observe.confusion import confusion
from trainer.observe.history import History, resumed_step
from trainer.observe.marks import KINDS
from trainer.run import Run

_FOLDER = Path(__file__).parent
_BAD_RECORDS_SHOWN = 20
_SECTIONS = {
    "Learning": ("loss", "accuracy", "learning-rate"),
    "Speed": ("speed", "data-wait"),
    "Machine": ("cpu", "memory", "disk"),
}


def render(run: Run, history: History, samples: list[dict], summary: dict) -> str:
    """The page's text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters |= {"percent": words.percent, "number": words.number, "duration": words.duration}
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    drawn, matrix = charts(history, samples), confusion(history)
    return environment.get_template("report.html").render(
        summary=summary,
        state=words.STATES[summary["state"]],
        state_reason=words.reason(summary["stop_reason"]) if summary["stop_reason"] else "",
        sections=_sections(drawn),
        confusion=matrix,
        story=_story(history),
        bad_records=_bad_records(history),
        config=_config(run, history),
        versions=_versions(history),
        command=_command(run),
        css=_raw("report.css"),
        plotly=Markup(get_plotlyjs()),
        script=_raw("charts.js"),
        data=_json({"charts": drawn, "confusion": matrix}),
    )


def _raw(name: str) -> Markup:
    return Markup((_FOLDER / name).read_text(encoding="utf-8"))


def _json(value) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _sections(drawn: list[dict]) -> dict[str, list[dict]]:
    by_id = {chart["id"]: chart | {"text": words.describe(chart), "legend": _legend(chart)} for chart in drawn}
    return {section: [by_id[name] for name in names if name in by_id] for section, names in _SECTIONS.items()}


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


def _story(history: History) -> list[dict]:
    """Starts and ends in order, each with its step."""
    moments = [(start["t"], "start", resumed_step(start), _changes(start)) for start in history.starts]
    moments += [
        (event["t"], "interrupted before", event.get("step"), interruption.words(event))
        for event in history.interruptions
    ]
    moments += [(stop["t"], "stop", stop.get("step"), words.reason(stop.get("reason"))) for stop in history.stops]
    return [
        {"at": words.moment(seconds), "what": what, "step": step, "reason": reason}
        for seconds, what, step, reason in sorted(moments, key=lambda moment: moment[0])
    ]


def _changes(start: dict) -> str:
    return "; ".join(start.get("explained") or [])


def _bad_records(history: History) -> list[dict]:
    shown = list(history.bad_records.values())[:_BAD_RECORDS_SHOWN]
    return [{key: event.get(key, "") for key in ("key", "offset", "reason")} for event in shown]


def _config(run: Run, history: History) -> dict[str, str]:
    try:
        values = tomllib.loads(run.config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        values = history.start.get("config") or {}
    return {key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in values.items()}


def _versions(history: History) -> dict[str, str]:
    start = history.start
    known = {
        "Kit": start.get("code") or start.get("version"),
        "MXNet": start.get("mxnet"),
        "numpy": start.get("numpy"),
        "Python": start.get("python"),
        "Host": start.get("host"),
        "Devices": ", ".join(start.get("devices") or []),
        "Decode threads": start.get("decode_threads_effective"),
        "Decoder": start.get("decoder"),
    }
    return {what: str(value) for what, value in known.items() if value}


def _command(run: Run) -> str:
    """Shell lines that train the same configuration again, in a directory of its own beside this one."""
    directory = run.directory.resolve()
    again = directory.with_name(f"{directory.name}-again")
    line = re.sub(r"[\\&|]", r"\\\g<0>", "run_directory = " + json.dumps(str(again)))
    script, config = (shlex.quote(text) for text in (f"s|^run_directory = .*|{line}|", str(directory / "config.toml")))
    return f"sed {script} {config} > again.toml\npython -m trainer train --config again.toml"
