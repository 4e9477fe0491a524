"""Those who look at the run: the way to its page that the play prints, Prometheus, and a browser."""

import contextlib
import json
import re
import shlex
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment

from tests.rehearsal.playing import PROJECT
from tests.rehearsal.story.run import wait

ROLE = PROJECT / "roles/prometheus/templates"
PROMETHEUS = PROJECT / ".kit/prometheus/usr/bin/prometheus"
# The page has drawn what it knows.
DRAWN = "Feed.history && Feed.now.loaded === 1 && document.querySelectorAll('.js-plotly-plot').length === 9"
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.contextmanager
def tunnel(printed: str, port: int) -> Iterator[str]:
    """The page's address, by the command that the play printed, but with a port of its own on this side."""
    [(command, far)] = re.findall(r"page: +(ssh .*?) -L \d+:(\S+?), then", printed)
    options = ["-N", "-L", f"{port}:{far}", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes"]
    silent = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*shlex.split(command), *options], **silent) as ssh:
        try:
            wait(lambda: _listens(port), "the tunnel to the page")
            yield f"http://127.0.0.1:{port}"
        finally:
            ssh.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def prometheus(folder: Path, target_port: int) -> Iterator[str | None]:
    """The address of one that asks the page's port, configured by the role's templates; None where there is none."""
    program = shutil.which("prometheus") or (str(PROMETHEUS) if PROMETHEUS.exists() else None)
    if program is None:
        yield None
        return
    address = f"127.0.0.1:{free_port()}"
    command = [program, f"--config.file={_configure(folder, target_port)}", f"--web.listen-address={address}"]
    with open(folder / "prometheus.log", "w") as log:
        process = subprocess.Popen([*command, f"--storage.tsdb.path={folder / 'metrics'}"], stdout=log, stderr=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def _configure(folder: Path, target_port: int) -> Path:
    (folder / "rules").mkdir(parents=True)
    alerts = Environment(variable_start_string="[[", variable_end_string="]]")
    _render(alerts, "trainer-alerts.yml.j2", folder / "rules/trainer-alerts.yml", prometheus_grafana_url="http://grafana")
    settings = {
        "ansible_managed": "By the rehearsal", "prometheus_scrape_interval_seconds": 2,
        "prometheus_alertmanagers": [], "__prometheus_rules": str(folder / "rules"),
        "prometheus_jobs": [{"job": "trainer", "targets": [f"127.0.0.1:{target_port}"]}],
    }  # fmt: skip
    plain = Environment()
    plain.filters["to_json"] = json.dumps
    return _render(plain, "prometheus.yml.j2", folder / "prometheus.yml", **settings)


def _render(environment: Environment, name: str, path: Path, **settings) -> Path:
    path.write_text(environment.from_string((ROLE / name).read_text()).render(settings))
    return path


def value(prometheus_url: str, query: str) -> float | None:
    """Of the first series that answers the query."""
    url = f"{prometheus_url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with contextlib.suppress(OSError), _NO_PROXY.open(url, timeout=10) as answer:
        found = json.load(answer)["data"]["result"]
        return float(found[0]["value"][1]) if found else None
    return None


def look_at(url: str, folder: Path) -> Path | None:
    """A picture of the page as Chromium draws it; None without Chromium. AssertionError when the page complains."""
    from browser import CHROMIUM, Browser

    if CHROMIUM is None:
        return None
    with Browser(folder / "profile") as browser:
        browser.size(1240, 2400)
        browser.open(url + "/")
        browser.until(DRAWN)
        browser.screenshot(folder / "page.png")
        if browser.complaints:
            raise AssertionError(f"the page complained: {browser.complaints}")
    return folder / "page.png"
