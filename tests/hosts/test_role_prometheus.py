"""Roles node_exporter and prometheus on one real host: private addresses, nothing wrong lands, no restart is lost."""

import json

from host import wait
from plays import PROJECT, play

RULES = "groups: [{name: trainer, rules: [{record: 'up:max', expr: 'max(up)'}]}]\n"


def configure(host, *options, **settings):
    wanted = {
        "node_exporter_address": host.address, "prometheus_scrape_interval_seconds": 1,
        "prometheus_jobs": [{"job": "node", "targets": [f"{host.address}:9100"]}],
    }
    return play(host, ["node_exporter", "prometheus"], wanted | settings, *options)


def listening(host, port, program):
    """Runs a Python program on the host that answers at a port of 127.0.0.1."""
    (host.root / "root/answer.py").write_text(program)
    host.run("systemd-run --quiet --collect --unit=answer python3 /root/answer.py")
    wait(lambda: f":{port}" in host.read("ss -Hltn"), 30, "the answering program")


def value(host, query):
    """What Prometheus answers, as text."""
    return answer(host, f"query?query={query}")


def answer(host, path):
    url = f"http://127.0.0.1:9090/api/v1/{path}"
    script = f"import urllib.request as r; print(r.build_opener(r.ProxyHandler({{}})).open('{url}').read().decode())"
    return host.run(f'python3 -c "{script}"', check=False).stdout


def test_a_fresh_host_is_predicted(host):
    done = configure(host, "--check")
    assert done.code == 0, done.output
    assert host.run("command -v prometheus prometheus-node-exporter", check=False).stdout == ""


def test_numbers_flow_on_private_addresses_only(host, tmp_path):
    (tmp_path / "trainer.yml").write_text(RULES)
    done = configure(host, prometheus_rule_files=[str(tmp_path / "trainer.yml")])
    assert done.code == 0, done.output
    wait(lambda: '"1"' in value(host, "up%3Amax"), 60, "the first numbers")
    listening = {line.split()[3] for line in host.read("ss -Hltn").splitlines()}
    assert {address for address in listening if address.endswith((":9090", ":9100"))} == {
        f"{host.address}:9100", "127.0.0.1:9090"}
    for options in ([], ["--check"]):
        again = configure(host, *options, prometheus_rule_files=[str(tmp_path / "trainer.yml")])
        assert (again.code, again.changed) == (0, []), again.output


def test_rules_that_are_wrong_do_not_land(host, tmp_path):
    (tmp_path / "trainer.yml").write_text(RULES.replace("max(up)", "max("))
    before = host.read("cat /etc/prometheus/rules/trainer.yml")
    done = configure(host, prometheus_rule_files=[str(tmp_path / "trainer.yml")])
    assert done.code != 0
    assert host.read("cat /etc/prometheus/rules/trainer.yml") == before
    assert host.read("systemctl is-active prometheus") == "active"


def test_a_restart_that_a_dead_play_owed_is_made_up_for_and_a_reboot_changes_nothing(host):
    host.run("touch /etc/prometheus/prometheus.yml /etc/default/prometheus-node-exporter")
    done = configure(host)
    restart = "Restart it when it started before its settings were written"
    assert done.changed == [
        f"node_exporter : {restart}", "prometheus : Remove them", f"prometheus : {restart}"], done.output
    host.reboot()
    wait(lambda: '"1"' in value(host, "up"), 60, "numbers after the reboot")
    after = configure(host)
    assert (after.code, after.changed) == (0, []), after.output


ALERT = "groups: [{name: now, rules: [{alert: Now, expr: 'vector(1)', annotations: {summary: it is now}}]}]\n"
# A trainer's monitor that asks for a token, and an Alertmanager that writes down what it is told.
ANSWERS = """
import http.server
TOKEN = "Bearer a-token-that-nobody-guesses"
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("Authorization") == TOKEN
        self.send_response(200 if known else 401); self.end_headers()
        self.wfile.write(b"trainer_up 1\\n" if known else b"")
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open("/root/alerts.json", "ab").write(body + b"\\n")
        self.send_response(200); self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", 8470), Answer).serve_forever()
"""


def test_a_trainer_with_a_token_is_asked_and_alerts_go_where_they_shall(host, tmp_path):
    listening(host, 8470, ANSWERS)
    (host.root / "etc/prometheus/token").write_text("a-token-that-nobody-guesses")
    (tmp_path / "now.yml").write_text(ALERT)
    job = {"job": "trainer", "targets": ["127.0.0.1:8470"], "token_file": "/etc/prometheus/token"}
    done = configure(host, prometheus_jobs=[job], prometheus_alertmanagers=["127.0.0.1:8470"],
                     prometheus_rule_files=[str(tmp_path / "now.yml")])  # fmt: skip
    assert done.code == 0, done.output
    wait(lambda: '"1"' in value(host, "trainer_up"), 60, "the trainer's numbers")
    wait(lambda: "it is now" in host.run("cat /root/alerts.json", check=False).stdout, 60, "the alert")
    assert "guesses" not in host.read("cat /etc/prometheus/prometheus.yml")
    rules = json.loads(answer(host, "rules"))["data"]["groups"]
    assert {rule["name"] for group in rules for rule in group["rules"]} >= {"Now", "TrainerHung", "CostAboveBudget"}
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}


def test_a_grafana_that_is_there_gets_the_dashboards(host):
    done = configure(host, prometheus_grafana_directory="/etc/grafana")
    assert done.code != 0 and "prometheus_grafana_directory must be" in done.output
    unit = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
    (host.root / "etc/systemd/system/grafana-server.service").write_text(unit)
    host.run("mkdir -p /etc/grafana && systemctl daemon-reload && systemctl start grafana-server")
    before = host.read("systemctl show -P MainPID grafana-server")
    settings = {"prometheus_grafana_directory": "/etc/grafana", "prometheus_grafana_url": "http://10.0.0.9:3000"}
    done = configure(host, **settings)
    assert done.code == 0, done.output
    assert host.read("systemctl show -P MainPID grafana-server") != before
    (folder,) = [line.split('"')[1] for line in host.read("cat /etc/grafana/provisioning/dashboards/trainer.yml")
                 .splitlines() if "path:" in line]  # fmt: skip
    boards = sorted((PROJECT / "roles/prometheus/files/dashboards").glob("*.json"))
    assert host.read(f"ls {folder}").split() == [board.name for board in boards]
    assert "http://10.0.0.9:3000/d/trainer-run" in host.read("cat /etc/prometheus/rules/trainer-alerts.yml")
    again = configure(host, **settings)
    assert (again.code, again.changed) == (0, []), again.output


def test_rules_of_ones_own_do_not_take_the_place_of_the_trainers(host, tmp_path):
    (tmp_path / "trainer-alerts.yml").write_text(RULES)
    done = configure(host, prometheus_rule_files=[str(tmp_path / "trainer-alerts.yml")])
    assert done.code != 0 and "must not have a file trainer-alerts.yml" in done.output
