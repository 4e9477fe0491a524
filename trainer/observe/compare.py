"""Runs side by side: the same numbers and curves of each, and the settings in which they differ."""

import json
from pathlib import Path

from trainer.errors import DiskError
from trainer.files import write_whole
from trainer.observe import events, words
from trainer.observe.charts import curve
from trainer.observe.history import History, read_history
from trainer.observe.load import doctor_of
from trainer.observe.page import details, environment, inlined, with_words
from trainer.observe.report import with_verdict
from trainer.observe.series import numbers, scaled
from trainer.run import Run

# As many as can be told apart by colour.
COLOURS = ("blue", "orange", "violet", "good", "bad", "grey")


def compare(runs: list[Run]) -> dict:
    """{runs: [what report.json holds], settings: {key: [value of each run]}, charts}; settings: those that differ."""
    histories = [read_history(events.read(run.events)) for run in runs]
    summaries = [with_verdict(run, history, doctor_of(run)) for run, history in zip(runs, histories, strict=True)]
    configs = [details.config(run, history) for run, history in zip(runs, histories, strict=True)]
    keys = [key for key in dict.fromkeys(key for config in configs for key in config) if key != "run_directory"]
    values = {key: [config.get(key) for config in configs] for key in keys}
    return {
        "runs": summaries,
        "settings": {key: row for key, row in values.items() if len(set(row)) > 1},
        "charts": _charts([run.name for run in runs], histories),
    }


def rows(compared: dict) -> list[tuple[str, list[str]]]:
    """What a person compares: (what, the words for each run)."""
    told = {
        "state": lambda run: words.STATES[run["state"]][0],
        "top-1": lambda run: words.percent(run["top1"]),
        "best top-1": lambda run: words.percent(run["best_top1"]),
        "validation loss": lambda run: words.number(run["validation_loss"]),
        "images/s": lambda run: words.number(run["images_per_second"]),
        "of the roof": lambda run: words.percent((run["doctor"] or {}).get("attained"), 0),
        "epochs": lambda run: words.number(run["epochs"]),
        "steps": lambda run: words.number(run["steps"]),
        "wall time": lambda run: words.duration(run["wall_seconds"]),
        "starts": lambda run: words.number(run["resumes"] + 1),
        "cost": lambda run: words.dollars((run["cost"] or {}).get("usd")),
        "on demand": lambda run: words.dollars((run["cost"] or {}).get("on_demand_usd")),
        "limit": lambda run: (run["doctor"] or {}).get("text") or "–",
    }
    return [(what, [word(run) for run in compared["runs"]]) for what, word in told.items()]


def write_comparison(compared: dict, path: Path) -> None:
    """One HTML file that loads nothing. DiskError."""
    page = environment().get_template("compare.html").render(
        names=[run["run"] for run in compared["runs"]], colours=COLOURS, rows=rows(compared),
        settings=compared["settings"], charts=[with_words(chart) for chart in compared["charts"]],
        **inlined({"charts": compared["charts"], "confusion": None, "strips": None}, "report.js"),
    )  # fmt: skip
    try:
        write_whole(path, page)
    except OSError as error:
        raise DiskError(f"cannot write the comparison {path}: {error}") from error


def to_json(compared: dict) -> str:
    return json.dumps({key: compared[key] for key in ("runs", "settings")}, indent=2)


def _charts(names: list[str], histories: list[History]) -> list[dict]:
    def chart(name, title, unit, x_title, series):
        drawn = zip(names, COLOURS, series, strict=False)
        lines = [curve(x, label, colour, y, style) for label, colour, (x, y, style) in drawn]
        return {"id": name, "title": title, "unit": unit, "x_title": x_title, "y_range": None, "stacked": False,
                "marks": [], "series": lines}  # fmt: skip

    def validated(history, key, factor=1.0):
        found = history.validations
        return numbers(found, "epoch"), scaled(numbers(found, key), factor), "points"

    def trained(history, key):
        return numbers(history.steps, "epoch"), numbers(history.steps, key), "line"

    hours = [[(step["t"] - history.starts[0]["t"]) / 3600 for step in history.steps] for history in histories]
    speeds = [numbers(history.steps, "images_per_second") for history in histories]
    return [
        chart("loss", "Training loss", "cross-entropy, smoothed", "Epoch", [trained(one, "loss") for one in histories]),
        chart("accuracy", "Top-1 accuracy", "% of validation images", "Epoch",
              [validated(one, "top1", 100) for one in histories]),
        chart("speed", "Training speed", "images per second, smoothed", "Hours since the first start",
              [(x, y, "line") for x, y in zip(hours, speeds, strict=True)]),
        chart("validation-loss", "Validation loss", "cross-entropy", "Epoch",
              [validated(one, "loss") for one in histories]),
    ]  # fmt: skip
