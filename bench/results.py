"""A bench's table, its ratios against their targets, and a plot."""

import json
from pathlib import Path

import plotly.graph_objects as go

# (what, engine, its threads, against, its threads, ratio to reach). -1: as many as were measured.
TARGETS = [
    ("ImageRecordIter, one thread", "kit", 1, "mxnet", 1, 1.9),
    ("ImageRecordIter, all cores", "kit", -1, "mxnet", -1, 3.5),
    ("libjpeg-turbo decoding whole pictures and nothing else, one core", "kit", 1, "decode", 1, 0.9),
    ("the originals, with records of short side 256", "kit at 256", 1, "kit", 1, 2.0),
    *(
        (name, "kit", -1, name, -1, 1.0)
        for name in ("opencv threads", "PyTurboJPEG", "torch + PIL", "tf.data", "DALI CPU")
    ),
]


def write(rows: list[dict], left_out: dict[str, str], folder: Path) -> None:
    """Prints the table; writes pipeline.json, pipeline.txt and pipeline.html."""
    found = {(row["engine"], row["threads"]): row for row in rows}
    text = "\n".join([*_table(rows), "", *_ratios(found), "", *_missing(left_out)])
    print(text)
    (folder / "pipeline.txt").write_text(text + "\n")
    (folder / "pipeline.json").write_text(json.dumps({"rows": rows, "left_out": left_out}, indent=1))
    _plot(rows).write_html(folder / "pipeline.html", include_plotlyjs=True)


def _table(rows: list[dict]) -> list[str]:
    fewest = min(row["threads"] for row in rows)
    first = {row["engine"]: row["images_per_second"] for row in rows if row["threads"] == fewest}
    lines = [f"{'engine':<16} {'threads':>7} {'images/s':>9} {'CPU ms/image':>13} {'of linear':>10}"]
    for row in sorted(rows, key=lambda row: (row["threads"], -row["images_per_second"])):
        linear = row["images_per_second"] / (first[row["engine"]] * row["threads"] / fewest)
        lines.append(
            f"{row['engine']:<16} {row['threads']:>7} {row['images_per_second']:>9,.0f} "
            f"{row['cpu_ms_per_image']:>13.3f} {linear:>10.0%}"
        )
    return lines


def _ratios(found: dict[tuple[str, int], dict]) -> list[str]:
    most = max(threads for _, threads in found)
    lines = [f"{'kit against':<66} {'images/s':>8} {'CPU':>6} {'aim':>6}"]
    for what, engine, threads, other, other_threads, aim in TARGETS:
        ours = found.get((engine, most if threads < 0 else threads))
        theirs = found.get((other, most if other_threads < 0 else other_threads))
        if ours and theirs:
            wall = ours["images_per_second"] / theirs["images_per_second"]
            cpu = theirs["cpu_ms_per_image"] / ours["cpu_ms_per_image"]
            lines.append(f"{what:<66} {wall:>7.2f}x {cpu:>5.2f}x {aim:>5.2f}x")
    return lines


def _missing(left_out: dict[str, str]) -> list[str]:
    return [f"left out: {name}: {reason}" for name, reason in left_out.items()]


def _plot(rows: list[dict]) -> go.Figure:
    figure = go.Figure()
    for threads in sorted({row["threads"] for row in rows}):
        mine = sorted((row for row in rows if row["threads"] == threads), key=lambda row: row["images_per_second"])
        figure.add_bar(
            y=[row["engine"] for row in mine], x=[row["images_per_second"] for row in mine], orientation="h",
            name=f"{threads} thread{'s' if threads > 1 else ''}",
        )  # fmt: skip
    figure.update_layout(
        title="Decode, random resized crop to 224, flip, normalise", xaxis_title="images a second", barmode="group"
    )
    return figure
