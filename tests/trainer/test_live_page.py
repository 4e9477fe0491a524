# ruff: noqa: E501 (scripts for the browser)
"""The live page in a real browser, from a real server, of a run like the article's."""

import json
import time
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from recorded_run import ROOF, training, write_recorded_run
from serving import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
READY = "Feed.history && Feed.now.loaded === 1 && document.querySelectorAll('.js-plotly-plot').length === 9"
# All of it is drawn at once, and anew.
CHOOSE = "document.querySelector('[value=%s]').click()"
# Each pair of text and ground that is too close for tired eyes (WCAG AA), with its ratio.
FAINT = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (colour) => { const [r, g, b] = rgb(colour).map((c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (node) => { for (; node; node = node.parentElement) { const c = getComputedStyle(node).backgroundColor; if (rgb(c)[3] > 250) return c; } return "white"; };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || node.closest("svg, script, noscript, .unseen, .skip, [hidden]") || !node.getClientRects().length) continue;
    const [one, other] = [light(getComputedStyle(node).color), light(ground(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) found.push([node.textContent.trim().slice(0, 40), ratio]);
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def trained(folder):
    found = write_recorded_run(folder / "imagenet", time.time(), seconds=1800, examples=180_000)
    with training(found) as silent:
        yield found, silent


@pytest.fixture(scope="module")
def run(trained):
    return trained[0]


@pytest.fixture
def sampler_silent(trained):
    """While it is set, nobody samples the machine."""
    yield trained[1]
    trained[1].clear()


@pytest.fixture(scope="module")
def server(run, folder):
    with serving(run, folder) as found:
        yield found


@pytest.fixture(scope="module")
def browser(folder):
    with Browser(folder / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def opened(browser, server):
    """Loaded once: the page lives for hours, and so it must stand all that these tests do to it."""
    browser.size(1240, 3600)
    browser.open(server.url + "/")
    browser.until(READY)
    assert browser.complaints == []
    return browser


@pytest.fixture
def page(opened):
    """The page on a large screen in the light, showing the whole run; it must not have complained at the end."""
    opened.complaints.clear()
    opened.size(1240, 3600)
    opened.dark(False)
    choose(opened, "whole")
    yield opened
    assert opened.complaints == []


def choose(page, value: str) -> None:
    page.evaluate(CHOOSE % value)


def drawn(page, value: str, script: str):
    """What a script finds right after the choice, before another second comes."""
    return page.evaluate(f"({CHOOSE % value}, {script})")


def test_the_curves_are_the_data(page):
    found = drawn(
        page, "recent",
        """(() => { const at = (t) => 1000 * t - 60000 * new Date(1000 * t).getTimezoneOffset(), rest = (view, name) => view[name].filter((one) => one !== null);
        const [band, line, roof] = document.getElementById("chart-speed").data, view = Feed.history.speed.recent, loss = document.getElementById("chart-loss").data;
        return { x: line.x.filter((_, row) => line.y[row] !== null), y: line.y.filter((one) => one !== null), told_x: view.t.map(at), told_y: view.speed, roof: roof.y,
          band: Math.max(...band.y.filter((one) => one !== null)), most: Math.max(...view.speed_high),
          loss: loss[1].y, told_loss: Feed.history.learning.loss, epoch: loss[1].x, told_epoch: Feed.history.learning.epoch,
          top1: document.getElementById("chart-accuracy").data[0].y, validations: Feed.history.validations.map((one) => 100 * one.top1),
          wait: document.getElementById("chart-wait").data[0].y.filter((one) => one !== null), told_wait: rest(view, "wait") }; })()""",
    )  # fmt: skip
    assert found["x"] == found["told_x"] and len(found["x"]) > 100
    assert found["y"] == found["told_y"]
    assert found["roof"] == [ROOF, ROOF]
    assert found["band"] == found["most"]
    assert found["loss"] == found["told_loss"] and found["epoch"] == found["told_epoch"]
    assert found["top1"] == found["validations"] and len(found["top1"]) > 2
    assert found["wait"] == found["told_wait"]


def test_the_page_has_what_the_server_told_and_the_server_what_the_log_says(page, server, run):
    _, _, body = server.get("/history.json")
    told = json.loads(body)
    samples = [json.loads(line) for line in run.samples.read_text().splitlines()]
    by_second = {int(entry["t"]): entry for entry in samples}
    recent = told["machine"]["recent"]
    assert len(recent["t"]) > 500
    for row in range(0, len(recent["t"]), 50):
        entry = by_second[recent["t"][row]]
        assert [gpu["util"][row] for gpu in recent["gpus"]] == [gpu["util"] for gpu in entry["gpus"]]
    page.until(f"Feed.history.machine.recent.t.includes({recent['t'][-1]})")


def test_the_strips_are_the_gpus(page):
    found = drawn(
        page, "recent",
        """(() => { const [map] = document.getElementById("chart-gpus").data, view = Feed.history.machine.recent;
        return { rows: map.z.length, first: map.z[0].filter((one) => one !== null), told: view.gpus[0].util, y: map.y.length,
          last: map.z[30].filter((one) => one !== null), told_last: view.gpus[15].util, limits: [map.zmin, map.zmax] }; })()""",
    )  # fmt: skip
    assert found["rows"] == 32 and found["y"] == 33  # one row a GPU, and one of space
    assert found["first"] == found["told"]
    assert found["last"] == found["told_last"]
    assert found["limits"] == [0, 100]


def test_the_whole_run_shows_stalls_that_a_mean_would_hide(page):
    high, mean, low = drawn(
        page, "whole",
        """(() => { const [map] = document.getElementById("chart-gpus").data; return [0, 1, 2].map((row) => map.z[row].slice(2, 40)); })()""",
    )  # fmt: skip
    stalled = [a == 100 and c == 0 and 20 < b < 90 for a, b, c in zip(high, mean, low, strict=True)]
    assert sum(stalled) > 0.7 * len(stalled)


def test_the_newest_second_arrives_without_a_reload(page):
    choose(page, "recent")
    page.until("Feed.messages >= 6")  # the history that came while the page was opened
    before = page.evaluate("[Feed.messages, document.getElementById('chart-gpus').data[0].x.at(-1), performance.timeOrigin, Feed.history.now.t]")
    page.until(f"Feed.messages >= {before[0]} + 4 && document.getElementById('chart-gpus').data[0].x.at(-1) >= {before[1]} + 3000")
    assert page.evaluate("performance.timeOrigin") == before[2]
    assert page.evaluate("Feed.history.now.t") == before[3]  # the history was not asked for again
    x, y = page.evaluate("(() => { const [map] = document.getElementById('chart-gpus').data; return [map.x, map.z[0].length]; })()")
    assert x == sorted(set(x)) and len(x) == y + 1


def test_the_numbers_are_those_of_the_run(page, run):
    text = page.evaluate("document.body.innerText")
    for words in ("Running", "p2.16xlarge", "us-west-2b", "The devices are the limit", "of the roof of 792", "89", "3 starts, 1 interruption"):
        assert words in text, text
    now = page.evaluate("Feed.now")
    assert f"${now['costs']['so_far_usd']:,.2f}" in text
    assert page.evaluate("document.getElementById('progress').value") == pytest.approx(now["epoch"] / now["epochs"], rel=1e-3)
    assert now["step"] / now["steps_total"] > 1.2 * now["epoch"] / now["epochs"]  # steps of another batch count otherwise
    rows = page.evaluate("[...document.querySelectorAll('#gpu-rows tr')].map((row) => row.innerText)")
    assert len(rows) == 16
    assert f"{now['gpus'][7]['temperature_c']} °C" in rows[7]
    story = page.evaluate("document.getElementById('story').innerText")
    assert "its machine ip-10-0-3-17 was lost" in story
    assert "decode_threads: 4 -> 32" in story


def test_what_is_missing_to_the_roof_has_a_name_and_a_time(page):
    assert "over the last 15 minutes" in page.evaluate("document.getElementById('limit-title').textContent")
    legend = page.evaluate("document.getElementById('account-legend').innerText")
    assert "what training loses to a measurement: validation, checkpoints, real data, noise: 8" in legend


def test_marks_stand_where_they_were_in_all_pictures(page):
    page.until("document.getElementById('chart-gpus').layout.shapes.length === 4")
    found = page.evaluate(
        """(() => { const of = (id) => { const chart = document.getElementById(id), { _offset, _length } = chart._fullLayout.xaxis, left = chart.getBoundingClientRect().left;
        return { left: left + _offset, right: left + _offset + _length, x: chart.layout.shapes.map((one) => one.x0).sort() }; };
        const shape = document.querySelector('#speed-legend .interrupted');
        return { speed: of("chart-speed"), gpus: of("chart-gpus"), loss: Feed.history.marks.epoch.filter((one) => one.kind !== "checkpoint").map((one) => [one.kind, one.x]),
          y: document.getElementById("chart-speed").data.filter((one) => one.yaxis === "y2").map((one) => [one.marker.symbol, one.y[0]]), sign: getComputedStyle(shape).clipPath }; })()"""
    )
    assert found["gpus"]["x"] == found["speed"]["x"]
    assert [found["gpus"][side] for side in ("left", "right")] == pytest.approx([found["speed"][side] for side in ("left", "right")], abs=1)
    resumed, _, stopped, interrupted = [x for _, x in found["loss"]]
    assert resumed == stopped <= interrupted
    heights = dict(found["y"])
    assert heights["triangle-down"] < heights["square"] - 0.05  # neither covers the other
    assert found["sign"].startswith("polygon")


def test_all_that_is_sent_is_drawn(page):
    drawn = page.evaluate(
        """(() => { const y = (id) => document.getElementById(id).data[0].y.filter((one) => one !== null), view = Feed.history.machine.whole, rest = (values) => values.filter((one) => one !== null);
        return [[y("chart-rate"), Feed.history.learning.rate], [y("chart-disk"), rest(view.read)], [y("chart-memory"), rest(view.available).map((one) => one * 1e-3)]]; })()"""
    )
    for seen, told in drawn:
        assert seen == told[: len(seen)] and len(seen) > 100


def test_rows_stay_the_same_while_their_numbers_change(page):
    page.evaluate("for (const cell of document.querySelectorAll('#gpu-rows td, #cost-rows td')) cell.seen = true")
    before = page.evaluate("Feed.messages")
    page.until(f"Feed.messages >= {before} + 3")
    assert page.evaluate("[...document.querySelectorAll('#gpu-rows td, #cost-rows td')].every((cell) => cell.seen)")


def test_a_message_that_comes_late_needs_no_new_history(page):
    """A link that brings one in twelve seconds: what lies between is in the message."""
    missing = page.evaluate(
        """(() => { const message = Feed.now, ends = ["speed", "machine"].flatMap((part) => Object.values(message[part]).map((view) => view.t.at(-1) - view.t[0]));
        return Math.min(...ends); })()"""
    )
    assert missing >= 12


def test_nothing_comes_from_elsewhere(page, server):
    assert len(page.requests) > 8
    assert [url for url in page.requests if not url.startswith((server.url, "data:"))] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_can_be_read(page, dark):
    page.dark(dark)
    page.until(f"matchMedia('(prefers-color-scheme: dark)').matches === {str(dark).lower()}")
    page.until("Charts.colour('--quiet') === document.getElementById('chart-speed').layout.font.color")
    assert page.evaluate(FAINT) == []


def test_a_phone_needs_no_sideways_scrolling(page):
    page.size(360, 780, mobile=True)
    page.until("document.documentElement.clientWidth === 360")
    page.until("document.getElementById('chart-speed').querySelector('svg').clientWidth < 360")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.evaluate("Feed.now.gpus[3].throttle = 'thermal'; Feed.messages += 1; document.dispatchEvent(new Event('visibilitychange'))")
    note = page.evaluate("(() => { const place = [...document.querySelectorAll('#gpu-rows .trouble')].find((one) => one.textContent === 'slowed by heat').getBoundingClientRect(); return [place.left, place.right, place.height]; })()")
    assert 0 < note[0] < note[1] < 360 and note[2] > 8
    wide = "[...document.querySelectorAll('body *')].filter((node) => node.getBoundingClientRect().right > 361 && !node.closest('.scroll, svg, .unseen')).map((node) => node.outerHTML.slice(0, 90))"
    assert page.evaluate(wide) == []


def test_the_keyboard_reaches_and_changes_everything(page):
    seen = []
    for _ in range(14):
        page.press("Tab")
        seen.append(page.evaluate("document.activeElement.name || document.activeElement.className || document.activeElement.tagName"))
    assert {"skip", "range", "measure"} <= set(seen)
    assert any("scroll" in name for name in seen)
    page.evaluate("document.querySelector('[name=range]:checked').focus()")
    page.press("ArrowLeft")
    assert page.evaluate("document.querySelector('[name=range]:checked').value") == "hours"
    assert page.evaluate("getComputedStyle(document.querySelector('[name=range]:checked + span')).outlineStyle") == "solid"


def test_a_screen_reader_is_told_the_same(page):
    nodes = page.accessible()
    roles = [node["role"] for node in nodes]
    assert {"main", "banner", "status", "table", "progressbar"} <= set(roles)
    pictures = [node["name"] for node in nodes if node["role"] in ("image", "img")]
    assert any("Training speed against the roof. images/s: last" in name for name in pictures), pictures
    assert any("Means in %: GPU 0" in name for name in pictures)
    assert [node for node in nodes if node["role"] in ("region", "radio", "table") and not node["name"]] == []
    assert {"Time shown", "What the strips show"} <= {node["name"] for node in nodes if node["role"] == "group"}
    page.until("document.getElementById('spoken').textContent.includes('Running')")
    spoken = page.evaluate("document.getElementById('spoken').textContent")
    assert "of the roof" in spoken
    time.sleep(3)
    assert page.evaluate("document.getElementById('spoken').textContent") == spoken  # not each second


def test_a_silent_sampler_is_seen(page, sampler_silent):
    assert page.evaluate("document.getElementById('warning').hidden")
    sampler_silent.set()
    page.until("document.getElementById('warning').textContent.includes('no new reading of the machine')")
    page.evaluate("globalThis.spoken = 0; new MutationObserver(() => { spoken += 1; }).observe(document.getElementById('warning'), { childList: true, characterData: true, subtree: true })")
    first = page.evaluate("document.getElementById('link').textContent")
    assert first.startswith("live, machine seen")
    page.until(f"document.getElementById('link').textContent !== {first!r}")  # the seconds go on, where nobody reads them out
    assert page.evaluate("spoken") == 0
    sampler_silent.clear()
    page.until("document.getElementById('warning').hidden")


def test_a_server_that_is_gone_is_seen_and_one_that_is_back_too(browser, run, folder):
    browser.size(1240, 3600)
    with serving(run, folder) as server:
        port = server.port
        browser.open(server.url + "/")
        browser.until(READY)
        assert browser.evaluate("document.getElementById('link').textContent") == "live"
    browser.until("!document.getElementById('warning').hidden && document.getElementById('warning').textContent.includes('No connection')")
    assert browser.evaluate("document.getElementById('link').textContent").startswith("no connection for ")
    assert browser.evaluate("getComputedStyle(document.querySelector('.tiles dd')).filter") == "grayscale(1)"
    began = browser.evaluate("performance.timeOrigin")
    with serving(run, folder, "--port", str(port)):
        browser.until("document.getElementById('link').textContent === 'live' && document.getElementById('warning').hidden")
        browser.until("Feed.now.loaded === 1 && Date.now() / 1000 - Feed.history.machine.recent.t.at(-1) < 4")
        # What came while there was no server is there, too.
        sampled = [int(json.loads(line)["t"]) for line in run.samples.read_text().splitlines()[-120:]]
        browser.until(f"{sampled}.every((t) => Feed.history.machine.recent.t.includes(t))")
    assert browser.evaluate("performance.timeOrigin") == began
    assert all("ERR_CONNECTION_REFUSED" in one or "ERR_" in one for one in browser.complaints)
