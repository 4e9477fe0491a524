"""report.html: one file that needs nothing else, shows what the events say, and believes no name."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from run_logs import finished, sample, start, step, steps, stop, validation, write_run

from trainer.errors import DiskError
from trainer.observe.report import write_report

PROJECT = Path(__file__).resolve().parents[2]
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


def gpu_samples(seconds=400):
    """Two GPUs that stall, then work: 4 threads until half of the time, 32 after it."""
    for n in range(seconds):
        starved = n < seconds / 2
        util = (100 if n % 6 < 3 else 0) if starved else 98
        yield sample(
            1000 + n, images_per_second=50.0 if starved else 95.0, data_wait_share=0.48 if starved else 0.01, steps=n,
            step_seconds=0.5, decode_threads=4 if starved else 32, batch_size=32, roof_images_per_second=100.0,
            gpus=[{"index": one, "util": util, "mem_used_mb": 900, "mem_total_mb": 12_000, "power_w": 90.0,
                   "sm_clock_mhz": 875, "temperature_c": 60} for one in range(2)],
        )  # fmt: skip


PRICE = {
    "price_usd_per_hour": 1.0, "on_demand_usd_per_hour": 10.0, "launched_at": 1203.0 - 3600, "market": "spot",
    "spent_before_usd": 0.5, "spent_before_on_demand_usd": 5.0, "instance_type": "p2.16xlarge", "budget_usd": None,
}  # fmt: skip


def test_gpus_verdicts_and_the_roof_are_in_it(tmp_path):
    run = write_run(tmp_path / "r", finished(), gpu_samples())
    run.tuning.write_text('{"roof_images_per_second": 100.0}')
    page = page_of(run)
    view = page.data()["strips"]["view"]
    assert [len(gpu["util"]) for gpu in view["gpus"]] == [400, 400]
    assert view["gpus"][1]["util"][:6] == [100, 100, 100, 0, 0, 0]
    assert page.series("speed", "roof")["y"] == [100, 100]
    assert "GPUs busy" in page.text()
    verdicts = page.text().split("verdict over time")[1]
    assert 0 < verdicts.index("too few decode threads") < verdicts.index("nothing to gain by settings")


def test_the_tuning_gives_credit(tmp_path):
    run = write_run(tmp_path / "r", finished())
    run.tuning.write_text(json.dumps({
        "batch_size": 1408, "decode_threads": 32, "images_per_second": 703.0, "proven": True,
        "roofs": {"network": 792.0},
        "start": {"batch_size": 128, "decode_threads": 4, "images_per_second": 402.0},
        "credit": {"decode_threads": 1.686, "batch_size": 1.037},
    }))  # fmt: skip
    words = page_of(run).text()
    for line in ("before batch 128, 4 threads 402", "decode threads 32 – × 1.686", "batch 1,408 – × 1.037"):
        assert line in words
    assert "after measured 703" in words


def test_the_bill_is_the_price_until_there_is_one(tmp_path):
    run = write_run(tmp_path / "r", finished())
    assert "Bill" not in page_of(run).text()
    run.price.write_text(json.dumps(PRICE))
    assert "Until the run ended $1.50 Saving against on demand $13.50 (90" in page_of(run).text()
    assert write_report(run)["cost"] == {"usd": 1.5, "on_demand_usd": 15.0, "billed": False}
    row = {"kind": "instance", "instance_type": "p2.16xlarge", "market": "spot", "id": EVIL, "zone": "z", "hours": 1.5}
    run.bill.write_text(json.dumps({
        "total_usd": 3.25, "on_demand_usd": 32.5, "rows": [row | {"usd": 3.0, "remark": "free"}, row | {"usd": None}],
        "lost_work": {"usd": 0.4, "seconds": 600},
    }))  # fmt: skip
    words = page_of(run).text()
    assert "In all $3.25 On demand $32.50 Saving $29.25 (90" in words
    assert "Work trained twice $0.40, 10 min 0 s" in words
    assert words.count(EVIL) == 2
    assert write_report(run)["cost"]["usd"] == 3.25


def test_a_directory_that_was_fetched_has_machine_and_bill_in_its_report(tmp_path):
    """The samples stay on the host, which is gone before the bill is written."""
    run = write_run(tmp_path / "r", finished(), gpu_samples())
    before = write_report(run)
    strips = Page(run.report_html.read_text()).data()["strips"]
    run.samples.unlink()
    run.bill.write_text(json.dumps({"total_usd": 3.25, "on_demand_usd": 32.5, "rows": []}))
    page = page_of(run)
    assert page.data()["strips"] == strips
    assert "verdict over time" in page.text() and "In all $3.25" in page.text()
    assert json.loads(run.report_json.read_text())["doctor"] == before["doctor"] is not None
    assert run.load.stat().st_size < 100_000
    run.load.write_text('{"view": 1')
    assert write_report(run)["doctor"] is None


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"total_usd": "much"}', '{"start": 3, "credit": [], "roofs": 1, "images_per_second": 4}']
)
def test_odd_files_are_no_end(tmp_path, text):
    run = write_run(tmp_path / "r", finished())
    for path in (run.bill, run.price, run.tuning):
        path.write_text(text)
    assert write_report(run)["cost"] is None


def compared(tmp_path, *options):
    first = write_run(tmp_path / "first", finished(), SAMPLES)
    log = [start(1000), *steps(1010, 10, 100), validation(1102, 100, 0.9), stop(1103, 100, "signal")]
    second = write_run(tmp_path / "second", log, config='run_directory = "/x"\nbatch_size = 64\n')
    runs = [str(first.directory), str(second.directory), "--to", str(tmp_path / "c.html")]
    command = [sys.executable, "-m", "trainer", "report", "--compare", *runs, *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_runs_side_by_side(tmp_path):
    done = compared(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "state\tFinished\tStopped on request\n" in done.stdout
    assert "top-1\t75.00\u202f%\t90.00\u202f%\n" in done.stdout
    assert "batch_size\t32\t64\n" in done.stdout
    page = Page((tmp_path / "c.html").read_text())
    accuracy = page.chart("accuracy")["series"]
    assert [(line["name"], line["y"]) for line in accuracy] == [("first", [70, 75]), ("second", [90])]
    assert "batch_size 32 64" in page.text()
    assert "run_directory" not in page.text()


def test_the_comparison_as_json(tmp_path):
    told = json.loads(compared(tmp_path, "--json").stdout)
    assert [run["top1"] for run in told["runs"]] == [0.75, 0.9]
    assert told["settings"] == {"batch_size": ["32", "64"]}


@pytest.mark.parametrize(
    "options", [[], ["--compare"], ["--compare", "x"], ["x"], ["--run", "x", "y"], ["--compare", *"abcdefg"]]
)
def test_what_cannot_be_compared_is_refused(tmp_path, options):
    command = [sys.executable, "-m", "trainer", "report", *options]
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 78
    assert "command line: --" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_browser_draws_the_gpus_as_they_were(tmp_path):
    run = write_run(tmp_path / "r", finished(), gpu_samples())
    write_report(run)
    assert compared(tmp_path).returncode == 0
    with Browser(tmp_path / "profile") as browser:
        browser.open(run.report_html.as_uri())
        browser.until("document.querySelectorAll('.js-plotly-plot').length === 13")
        drawn = "(() => { const [map] = document.getElementById('gpus-util').data; return [map.z[2], map.y]; })()"
        found = browser.evaluate(drawn)
        assert found[0] == [sample["gpus"][1]["util"] for sample in gpu_samples()]
        assert found[1] == pytest.approx([0, 0.84, 1, 1.84, 2])
        browser.open((tmp_path / "c.html").as_uri())
        browser.until("document.querySelectorAll('.js-plotly-plot').length === 4")
        assert browser.complaints == []
        assert all(url.startswith(("file:", "data:")) for url in browser.requests)
