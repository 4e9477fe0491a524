"""The dashboards' expressions, by a real Prometheus that has asked a real monitor: each of them finds something."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.nvml import FakeNvml
from prometheus_tools import program
from run_logs import checkpoint, finished, start, step, validation, write_run
from serving import serving
from test_alerts import RULES
from test_metrics import append
from test_monitor import until
from test_serve_gpus import DEVICES

from trainer import lease

DASHBOARDS = sorted((Path(__file__).resolve().parents[2] / "roles/prometheus/files/dashboards").glob("*.json"))
PANELS = [
    (path.stem, panel) for path in DASHBOARDS for panel in json.loads(path.read_text())["panels"]
    if panel["type"] != "row"
]  # fmt: skip
EXPRESSIONS = [(f"{name}: {panel['title']}", target["expr"]) for name, panel in PANELS for target in panel["targets"]]


@pytest.fixture(scope="module")
def monitored(tmp_path_factory):
    """The server of a run on 16 GPUs that trains for as long as the tests take; one that something happens to."""
    folder = tmp_path_factory.mktemp("recorded")
    now = time.time()
    run = write_run(folder / "r", [
        start(now - 900), *finished(now - 800)[1:-1], {"t": now - 300, "kind": "notice"},
        {"t": now - 290, "kind": "interrupted", "reason": "host_lost"},
        start(now - 200, resumed_step=100, devices=DEVICES),
        validation(now - 100, 150),
    ])  # fmt: skip
    run.tuning.write_text(json.dumps({"roof_images_per_second": 800.0}))
    price = {"price_usd_per_hour": 1.5, "launched_at": now - 7200, "budget_usd": 20.0}
    (run.directory / "price.json").write_text(json.dumps(price))
    with lease.hold(run), serving(run, folder, **FakeNvml(folder).environment) as server:
        yield run, server


@pytest.fixture(scope="module")
def prometheus(monitored, tmp_path_factory):
    """Its address, once it has asked often enough for rates."""
    folder = tmp_path_factory.mktemp("prometheus")
    run, server = monitored
    (folder / "rules.yml").write_text(RULES)
    scrape = {"job_name": "trainer", "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": ["rules.yml"], "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with serving_prometheus(folder) as url:
        for number in range(12):
            append(run.events, step(time.time(), 160 + 10 * number, seconds_left=600.0))
            append(run.events, checkpoint(time.time(), 160 + number) | {"interval_seconds": 60.0})
            time.sleep(1)
        until(lambda: query(url, "trainer:data_wait:ratio_rate5m") and query(url, "trainer_gpu_up"))
        yield url, f"127.0.0.1:{server.port}"


@contextmanager
def serving_prometheus(folder):
    """A Prometheus with the folder's configuration, at a port of its own choice."""
    command = [program("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    path = folder / "log"
    with open(path, "w") as log, subprocess.Popen(
        [*command, "--web.listen-address=127.0.0.1:0"], cwd=folder, stdout=log, stderr=log
    ) as process:
        try:
            said = r'msg="Listening on" address=(\S+)'
            until(lambda: re.search(said, path.read_text()))
            url = f"http://{re.search(said, path.read_text())[1]}"
            until(lambda: ask(f"{url}/-/ready"))
            yield url
        finally:
            process.terminate()


def ask(url: str) -> bytes | None:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=20) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        return None if error.code == 503 else error.read()
    except OSError:
        return None


def query(url: str, expression: str) -> list:
    """The series that it finds now."""
    answer = json.loads(ask(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    assert answer["status"] == "success", answer
    return answer["data"]["result"]


@pytest.mark.parametrize(("panel", "expression"), EXPRESSIONS, ids=[panel for panel, _ in EXPRESSIONS])
def test_each_expression_finds_something(prometheus, panel, expression):
    url, instance = prometheus
    found = query(url, expression.replace("$instance", instance).replace("$__rate_interval", "30s"))
    assert found, expression
    assert all(entry["value"][1] != "NaN" for entry in found), found
    gpus = {"Utilisation", "Memory in use", "Temperature", "Power"}
    assert not gpus & {panel.partition(": ")[2]} or len(found) == 16


def test_prometheus_found_no_fault_in_what_it_was_told(prometheus):
    url, instance = prometheus
    (target,) = json.loads(ask(f"{url}/api/v1/targets"))["data"]["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    groups = json.loads(ask(f"{url}/api/v1/rules"))["data"]["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
    assert query(url, "scrape_samples_scraped")[0]["value"][1] != "0"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_complete(path):
    board = json.loads(path.read_text())
    assert board["uid"] == path.stem and board["description"] and "id" not in board
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=[f"{name}: {panel['title']}" for name, panel in PANELS])
def test_each_panel_has_a_unit_thresholds_and_asks_the_chosen_source(name, panel):
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"] in UNITS
    assert defaults["thresholds"]["steps"][0]["value"] is None
    later = [entry["value"] for entry in defaults["thresholds"]["steps"][1:]]
    assert later == sorted(later)
    assert panel["datasource"]["uid"] == "${datasource}"
    assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    ratio = {"ratio"} & {word for target in panel["targets"] for word in re.split(r"[_{ ]", target["expr"])}
    assert not ratio or defaults["unit"] == "percentunit" or panel["type"] == "table"


UNITS = ("short", "none", "percentunit", "s", "currencyUSD", "celsius", "watt")


def test_what_is_judged_has_limits():
    judged = {panel["title"] for _, panel in PANELS if len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) > 1}
    assert {"Speed against its roof", "Last step", "Last checkpoint", "Temperature", "Share of the budget",
            "Time spent waiting for data", "Space on the run's disk", "Interruptions"} <= judged  # fmt: skip


def test_the_alerts_link_a_dashboard_that_is_there():
    uid = re.search(r"/d/([\w-]+)\?var-(\w+)=", RULES)
    board = next(json.loads(path.read_text()) for path in DASHBOARDS if path.stem == uid[1])
    assert uid[2] in [variable["name"] for variable in board["templating"]["list"]]
