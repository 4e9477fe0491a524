"""report.html: one file that needs nothing else, shows what the events say, and believes no name."""

import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from run_logs import finished, sample, start, step, steps, stop, validation, write_run

from trainer.errors import DiskError
from trainer.observe.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = "</script><script>alert(1)</script><img src=http://x.example/y onerror=alert(2)>&amp;"
SAMPLES = [sample(1000 + second) for second in range(200)]


class Page(HTMLParser):
    """What a browser would see: elements with attributes, texts by element."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.styles, self.open = [], [], [], []
        self.words = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        place = self.open[-1] if self.open else ""
        {"script": self.scripts, "style": self.styles}.get(place, self.words).append(data)

    def data(self):
        return json.loads(self.scripts[0])

    def chart(self, name):
        return next(chart for chart in self.data()["charts"] if chart["id"] == name)

    def series(self, chart, name):
        return next(series for series in self.chart(chart)["series"] if series["name"] == name)

    def text(self):
        return " ".join(" ".join(self.words).split())


def page_of(run):
    write_report(run)
    return Page(run.report_html.read_text())


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "r", finished(), SAMPLES)


def test_the_page_loads_nothing(run):
    page = page_of(run)
    for tag, attributes in page.elements:
        assert tag not in ("iframe", "object", "embed", "base")
        assert tag != "link" or attributes["href"] == "data:,"
        for key in ("src", "srcset", "action", "poster", "background"):
            assert key not in attributes, (tag, attributes)
        if "href" in attributes:
            assert attributes["href"].startswith(("#", "data:,"))
    style = " ".join(page.styles + [attributes.get("style", "") for _, attributes in page.elements])
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = [a["content"] for tag, a in page.elements if tag == "meta" and "http-equiv" in a]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_the_curves_are_the_events(run):
    page = page_of(run)
    log = finished()
    events = {kind: [event for event in log if event["kind"] == kind] for kind in ("step", "validation", "checkpoint")}
    loss = page.series("loss", "training, each reading")
    assert loss["x"] == [event["epoch"] for event in events["step"]]
    assert loss["y"] == pytest.approx([event["loss"] for event in events["step"]], rel=1e-5)
    assert page.series("accuracy", "top-1")["y"] == pytest.approx([70, 75])
    assert page.series("speed", "images/s, each reading")["y"] == [40] * 20
    assert page.series("data-wait", "waiting, each reading")["y"] == pytest.approx([10] * 20)
    assert page.series("learning-rate", "rate")["y"] == [0.1] * 20
    assert page.series("cpu", "user")["y"] == [70] * 200
    assert page.series("memory", "available")["y"] == [8] * 200
    assert page.series("disk", "read, each reading")["y"] == [12.5] * 200
    assert [mark["x"] for mark in page.chart("loss")["marks"]] == [1, 2]
    assert page.data()["confusion"]["counts"] == [[18, 2], [8, 12]]
    assert page.data()["confusion"]["labels"] == ["cat", "dog"]


def test_the_headline_and_tables_are_the_summary(run):
    text = page_of(run).text()
    for words in (
        "75.00 %",
        "40 images/s",
        "3 min 20 s",
        "200 of 200 steps",
        "Finished",
        "all epochs done",
        "batch_size",
    ):
        assert words in text
    assert "cat 20 90.0 % dog (2)" in text
    assert "dog 20 60.0 % cat (8)" in text


def test_starts_and_stops_are_marked_and_break_the_curves_over_time(tmp_path):
    log = [
        start(1000),
        *steps(1010, 10, 50),
        stop(1061, 50, "signal"),
        start(2000, resumed_step=50),
        *steps(2010, 60, 90),
    ]
    page = page_of(write_run(tmp_path / "r", log))
    assert [(mark["kind"], mark["x"]) for mark in page.chart("loss")["marks"]] == [("resume", 0.5), ("stop", 0.5)]
    speed = page.series("speed", "images/s, each reading")
    assert speed["y"] == [*[40] * 5, None, None, *[40] * 4]
    assert page.chart("speed")["x_title"].endswith("(minutes)")
    assert speed["x"][4:8] == pytest.approx([50 / 60, 50 / 60, 1010 / 60, 1010 / 60], rel=1e-4)
    assert "a signal asked for it" in page.text()


def test_no_name_becomes_markup(tmp_path):
    log = [start(1000, classes=[EVIL, "b"], host=EVIL, version=EVIL), step(1010, 10), validation(1011, 10)]
    log += [{"t": 1012, "kind": "bad_record", "key": EVIL, "offset": EVIL, "reason": EVIL}, stop(1013, 10, EVIL)]
    config = f'run_directory = "x"\nnetwork = {json.dumps(EVIL)}\n"<b>" = 1\n'
    page = page_of(write_run(tmp_path / EVIL.replace("/", "∕"), log, config=config))
    assert len(page.scripts) == 3
    assert not [tag for tag, _ in page.elements if tag in ("img", "b")]
    assert page.text().count(EVIL) >= 6
    assert page.data()["confusion"]["labels"] == [EVIL, "b"]


@pytest.mark.parametrize(
    "log",
    [
        [],
        [start(1000)],
        [start(1000), *steps(1010, 10, 30)],
        [start(1000), step(1010, 10, loss=None), stop(1011, 10, "non_finite_loss")],
        [start(1000, classes=None), step(1010, 10), validation(1011, 10, top1=None, top5=None, confusion=None)],
        [{"t": 1.0, "kind": "start"}, {"t": 2.0, "kind": "step", "step": 1}, {"t": 3, "kind": "validation", "step": 1},
         {"t": 4.0, "kind": "bad_record"}, {"t": 5.0, "kind": "stop"}],
        [step(10, 5), start(5)],
    ],
    ids=["empty", "started", "running", "failed", "many classes", "bare events", "clock set back"],
)  # fmt: skip
def test_every_kind_of_run_has_a_report(tmp_path, log):
    run = write_run(tmp_path / "r", log, SAMPLES)
    page = page_of(run)
    assert page.data()["confusion"] is None or len(page.data()["confusion"]["labels"]) == 2
    assert json.loads(run.report_json.read_text())["run"] == "r"


def test_half_a_directory_is_enough(tmp_path):
    run = write_run(tmp_path / "r", finished())
    run.config.unlink()
    run.samples.unlink()
    with open(run.events, "a") as file:
        file.write('{"t":1300,"kind":"st')
    assert write_report(run)["finished"]


def test_a_day_of_events_stays_small_and_keeps_its_spikes(tmp_path):
    log = [start(0, epochs=1000), *[step(2 * n, n, loss=1.0, images_per_second=40.0) for n in range(1, 20_000)]]
    log[12_345]["loss"] = 99.0
    page = page_of(write_run(tmp_path / "r", log, [sample(t) for t in range(0, 40_000, 4)]))
    assert all(len(line["x"]) <= 2000 for chart in page.data()["charts"] for line in chart["series"])
    assert 99.0 in page.series("loss", "training, each reading")["y"]
    assert len(page.scripts[0]) < 500_000


def test_charts_tables_and_sections_have_names_for_those_who_do_not_see(run):
    page = page_of(run)
    tags = [tag for tag, _ in page.elements]
    assert tags.count("table") == tags.count("caption") > 3
    assert tags.count("h1") == 1
    charts = [attributes for _, attributes in page.elements if attributes.get("class", "").startswith("chart")]
    assert len(charts) == 9
    assert all(chart["role"] == "img" and len(chart["aria-label"]) > 40 for chart in charts)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["aria-labelledby"] for _, a in page.elements if "aria-labelledby" in a} <= set(ids)
    assert {a["href"][1:] for tag, a in page.elements if tag == "a"} <= set(ids)


def test_the_command_trains_the_same_config_elsewhere(tmp_path):
    run = write_run(tmp_path / "a & b|c 'd'", finished())
    page = page_of(run)
    (command,) = [words for words in page.words if words.startswith("sed")]
    subprocess.run(["sh", "-ec", command.splitlines()[0]], cwd=tmp_path, check=True)
    expected = run.config.read_text().replace("/runs/r", f"{run.directory}-again")
    assert (tmp_path / "again.toml").read_text() == expected


def test_a_report_that_cannot_be_written_leaves_the_old_one(run):
    write_report(run)
    before = run.report_html.read_text()
    run.report_json.unlink()
    run.report_json.mkdir()
    with pytest.raises(DiskError, match="cannot write the report"):
        write_report(run)
    assert run.report_html.read_text() == before
    assert not list(run.directory.glob("*.tmp"))


def test_the_command_line_prints_the_headline_and_the_json(run):
    command = [sys.executable, "-m", "trainer", "report", "--run", str(run.directory)]
    plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "state: Finished\n" in plain
    assert f"report: {run.report_html}\n" in plain
    as_json = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(as_json) == json.loads(run.report_json.read_text())


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_browser_draws_every_chart_and_complains_of_nothing(tmp_path):
    log = [start(1000, classes=["<b>cat</b>", "dog"]), *finished()[1:]]
    run = write_run(tmp_path / "r", log, SAMPLES)
    write_report(run)
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=5000 --dump-dom"
    )
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={tmp_path / 'browser'}", run.report_html.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    drawn = Page(done.stdout)
    assert "CONSOLE" not in done.stderr
    assert sum("js-plotly-plot" in attributes.get("class", "") for _, attributes in drawn.elements) == 9
    assert drawn.words.count("<b>cat</b>") >= 3  # table, row and column of the matrix
    assert sum(attributes.get("class") == "heatmap-label" for _, attributes in drawn.elements) == 4
