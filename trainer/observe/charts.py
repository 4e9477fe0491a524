"""What the report draws, as plain data: page/charts.js turns it into pictures in the reader's colours.

A chart: {id, title, unit, x_title, y_range or None, stacked, series, marks}. A series: {name, x, y, colour, style},
where colour names a variable of page/report.css and style is "line", "faint", "points" or "dash".
Marks: trainer.observe.marks.
"""

from bisect import bisect_right
from collections.abc import Sequence

from trainer.observe.history import History, is_number
from trainer.observe.marks import marks
from trainer.observe.series import Series, keep, numbers, scaled, smooth

# Time axes: from this many seconds on, this many seconds are one of these.
_UNITS = ((3 * 3600, 3600, "hours"), (180, 60, "minutes"), (0, 1, "seconds"))
# Noise is averaged over this part of a series: enough to see a trend, little enough to see when it changes.
_NOISE_WINDOWS = 50
_CPU_WINDOWS = 200
_CPU_COLOURS = {"user": "blue", "system": "violet", "iowait": "orange", "idle": "grey"}


def charts(history: History, samples: Sequence[dict], roof: float | None = None) -> list[dict]:
    """Every chart for which there is data. roof: images/s that the run could train at best, None: not known."""
    drawn = [*_learning_charts(history), *_time_charts(history, samples, roof)]
    return [chart for chart in drawn if any(is_number(y) for line in chart["series"] for y in line["y"])]


def _learning_charts(history: History) -> list[dict]:
    steps, validations = history.steps, history.validations
    epochs, validated = numbers(steps, "epoch"), numbers(validations, "epoch")
    rate = numbers(steps, "learning_rate")
    top1, top5 = (scaled(numbers(validations, key), 100) for key in ("top1", "top5"))
    loss = [
        *_noisy(epochs, "training", "blue", numbers(steps, "loss")),
        _line(validated, "validation", "orange", numbers(validations, "loss"), "points"),
    ]
    accuracy = [
        _line(validated, "top-1", "blue", top1, "points"),
        _line(validated, "top-5", "orange", top5, "points"),
    ]
    moments = marks(history, lambda event, step: history.epoch_at(step, event["t"]))
    axis = {"x_title": "Epoch", "marks": _but_checkpoints(moments)}
    return [
        _chart("loss", "Loss", "cross-entropy", loss, **axis | {"marks": moments}),
        _chart("accuracy", "Accuracy", "% of validation images", accuracy, **axis),
        _chart("learning-rate", "Learning rate", "of the whole batch", [_line(epochs, "rate", "blue", rate)], **axis),
    ]


def time_axis(history: History, end: float) -> tuple[float, str]:
    """Seconds of the unit in which a run until `end` is told, and the axis's title."""
    seconds = end - history.starts[0]["t"]
    unit_seconds, unit = next((size, unit) for least, size, unit in _UNITS if seconds >= least)
    return unit_seconds, f"Time since the first start ({unit})"


def _time_charts(history: History, samples: Sequence[dict], roof: float | None) -> list[dict]:
    if not history.starts:
        return []
    starts = [start["t"] for start in history.starts]
    steps = _with_gaps(history.all_steps, starts)
    load = _with_gaps([entry for entry in samples if is_number(entry.get("t")) and entry["t"] >= starts[0]], starts)
    end = max(starts[0], *(row["t"] for row in steps[-1:] + load[-1:]), history.ended)
    unit_seconds, x_title = time_axis(history, end)

    def elapsed(row: dict) -> float:
        return (row["t"] - starts[0]) / unit_seconds

    step_x, load_x = [elapsed(row) for row in steps], [elapsed(row) for row in load]
    wait = scaled(numbers(steps, "data_wait_share"), 100)
    cpu = {state: smooth(numbers(load, "cpu", state), _CPU_WINDOWS) for state in _CPU_COLOURS}
    memory = scaled(numbers(load, "host_memory", "available_mb"), 1e-3)
    moments = marks(history, lambda event, _: elapsed(event))
    axis = {"x_title": x_title, "marks": _but_checkpoints(moments), "y_range": [0, None]}
    shares = axis | {"y_range": [0, 100]}
    return [
        _chart(
            "speed",
            "Training speed",
            "images per second",
            [
                *_noisy(step_x, "images/s", "blue", numbers(steps, "images_per_second")),
                *([_line([0, elapsed({"t": end})], "roof", "good", [roof, roof], "dash")] if roof and steps else []),
            ],
            **axis | {"marks": moments},
        ),
        _chart("data-wait", "Waiting for data", "% of the time", _noisy(step_x, "waiting", "orange", wait), **shares),
        _chart(
            "cpu",
            "Processor load",
            "% of all cores' time, moving average",
            _lines(load_x, cpu, _CPU_COLOURS),
            stacked=True,
            **shares,
        ),
        _chart("memory", "Memory available", "GB", [_line(load_x, "available", "blue", memory)], **axis),
        _chart(
            "disk",
            "Disk reads",
            "MB/s, all disks",
            _noisy(load_x, "read", "blue", numbers(load, "disk", "read_mb_s")),
            **axis,
        ),
    ]


def _chart(name: str, title: str, unit: str, series: list[dict], **options) -> dict:
    defaults = {"y_range": None, "stacked": False}
    return {"id": name, "title": title, "unit": unit, "series": series, **defaults, **options}


def _noisy(x: Series, name: str, colour: str, values: Series) -> list[dict]:
    smoothed = smooth(values, _NOISE_WINDOWS)
    return [
        _line(x, f"{name}, each reading", "faint", values, "faint"),
        _line(x, f"{name}, smoothed", colour, smoothed),
    ]


def curve(x: Series, name: str, colour: str, values: Series, style: str = "line") -> dict:
    """One series, thinned out; of style "line" smoothed, too."""
    return _line(x, name, colour, smooth(values, _NOISE_WINDOWS) if style == "line" else values, style)


def _line(x: Series, name: str, colour: str, values: Series, style: str = "line") -> dict:
    return _lines(x, {name: values}, {name: colour}, style)[0]


def _lines(x: Series, columns: dict[str, Series], colours: dict[str, str], style: str = "line") -> list[dict]:
    """Series that share their x, thinned out together."""
    rows = keep(list(columns.values()))
    drawn_x = [_short(x[row]) for row in rows]
    return [
        {
            "name": name,
            "x": drawn_x,
            "y": [_short(values[row]) for row in rows],
            "colour": colours[name],
            "style": style,
        }
        for name, values in columns.items()
    ]


def _but_checkpoints(moments: list[dict]) -> list[dict]:
    return [mark for mark in moments if mark["kind"] != "checkpoint"]


def _with_gaps(events: Sequence[dict], starts: list[float]) -> list[dict]:
    """The events with empty rows around the time before each start: nothing is known of it."""
    rows = []
    for event in events:
        if rows and bisect_right(starts, rows[-1]["t"]) < bisect_right(starts, event["t"]):
            rows += [{"t": rows[-1]["t"]}, {"t": event["t"]}]
        rows.append(event)
    return rows


def _short(value: float | None) -> float | None:
    """Six digits: more cannot be seen, and they would double the file."""
    return None if value is None else float(f"{value:.6g}")
