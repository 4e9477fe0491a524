"""Roles node_exporter and prometheus on one real host: private addresses, nothing wrong lands, no restart is lost."""

import time

import pytest
from host import wait
from plays import play

RULES = "groups: [{name: trainer, rules: [{record: 'up:max', expr: 'max(up)'}]}]\n"
STRANGER = "import ctypes, socket, time; ctypes.CDLL(None).prctl(15, b'prometheus'); " \
    "held = socket.create_server(('127.0.0.1', 9099)); time.sleep(600)"  # it calls itself prometheus: PR_SET_NAME
NODE = {"job": "node", "targets": []}


def configure(host, *options, **settings):
    wanted = {
        "node_exporter_address": host.address, "prometheus_scrape_interval_seconds": 1,
        "prometheus_jobs": [{"job": "node", "targets": [f"{host.address}:9100"]}],
    }
    return play(host, ["node_exporter", "prometheus"], wanted | settings, *options)


def value(host, query):
    """What Prometheus answers, as text."""
    url = f"http://127.0.0.1:9090/api/v1/query?query={query}"
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
    again = configure(host, "--check", prometheus_rule_files=[str(tmp_path / "trainer.yml")])
    assert (again.code, again.changed) == (0, []), again.output


def state(host):
    """Its files, and the process that runs with them."""
    files = "/etc/default/prometheus* /etc/prometheus/prometheus.yml /etc/prometheus/rules/*"
    return host.read(f"sha256sum {files}; systemctl show -P MainPID -P ActiveState prometheus prometheus-node-exporter")


@pytest.mark.parametrize("rules, settings, words", [
    (RULES.replace("max(up)", "max("), {}, "unclosed left parenthesis"),
    (RULES, {"prometheus_jobs": [NODE, NODE]}, 'found multiple scrape configs with job name "node"'),
    (RULES, {"prometheus_jobs": [NODE | {"targets": ["http://10.0.0.9:9100"]}]}, "is not a valid hostname"),
    (RULES, {"prometheus_jobs": [NODE | {"token_file": "/etc/prometheus/token"}]},
     'checking authorization credentials or bearer token file "/etc/prometheus/token"'),
    (RULES, {"prometheus_port": 99090}, "prometheus_port must be 1 to 65535"),
    (RULES, {"prometheus_address": "10.0.0.9"}, "prometheus_address must be an address of this host, got 10.0.0.9"),
    (RULES, {"node_exporter_address": "10.0.0.9"}, "node_exporter_address must be an address of this host, got 10."),
    (RULES, {"node_exporter_port": 99100}, "node_exporter_port must be 1 to 65535, got 99100"),
    (RULES, {"prometheus_port": "22"}, "prometheus_port must be a free port, got 22: LISTEN"),
    (RULES, {"node_exporter_port": 22}, 'users:(("sshd",'),
    (RULES, {"node_exporter_address": "127.0.0.1", "node_exporter_port": 9090}, 'users:(("prometheus",'),
], ids=["rules", "jobs", "target", "token", "port", "address", "node's address", "node's port", "held port",
        "node's held port", "prometheus' port"])
def test_what_is_wrong_is_told_and_does_not_land(host, tmp_path, rules, settings, words):
    """What promtool finds in its words; options, of which it knows nothing, by the role."""
    (tmp_path / "trainer.yml").write_text(rules)
    before = state(host)
    done = configure(host, prometheus_rule_files=[str(tmp_path / "trainer.yml")], **settings)
    assert done.code != 0
    assert words in " ".join(done.output.replace("\\", "").split()), done.output
    assert state(host) == before


def test_a_restart_that_a_dead_play_owed_is_made_up_for_and_a_reboot_changes_nothing(host):
    """It wrote Prometheus' configuration, and the exporter's first drop-in, of which systemd has not heard."""
    drop_in = "/etc/systemd/system/prometheus-node-exporter.service.d"
    host.run(f"mv {drop_in} /root && systemctl daemon-reload && mv /root/{drop_in.rpartition('/')[2]} {drop_in}")
    host.run(f"touch /etc/prometheus/prometheus.yml {drop_in}/*")
    done = configure(host)
    restart = "Restart it when it started before its settings were written"
    assert done.changed == [
        f"node_exporter : {restart}", "prometheus : Remove them", f"prometheus : {restart}"], done.output
    assert host.read("systemctl show -P RestartUSec prometheus-node-exporter") == "5s"
    host.reboot()
    wait(lambda: '"1"' in value(host, "up"), 60, "numbers after the reboot")
    after = configure(host)
    assert (after.code, after.changed) == (0, []), after.output


def test_what_cannot_be_is_refused(host, tmp_path):
    (tmp_path / "trainer-alerts.yml").write_text(RULES)
    before = state(host)
    done = configure(host, prometheus_rule_files=[str(tmp_path / "trainer-alerts.yml")])
    assert done.code != 0 and "must not have a file trainer-alerts.yml" in done.output
    done = configure(host, prometheus_grafana_directory="/etc/grafana")
    assert done.code != 0 and "prometheus_grafana_directory must be" in done.output
    host.run(f'systemd-run --quiet --unit=stranger python3 -c "{STRANGER}"')
    wait(lambda: "9099" in host.read("ss -Hltn"), 20, "the stranger to listen")
    done = configure(host, prometheus_port=9099)
    host.run("systemctl stop stranger")
    assert done.code != 0 and "prometheus_port must be a free port, got 9099: LISTEN" in done.output
    assert state(host) == before


def test_a_package_that_is_there_in_half_is_installed_to_its_end(host):
    """As after a power cut: its files are unpacked, nothing of it is set up."""
    host.run("systemctl stop prometheus-node-exporter && apt-get -q -y purge prometheus-node-exporter && cd /tmp &&"
             " apt-get -q download prometheus-node-exporter && dpkg --unpack prometheus-node-exporter_*.deb")
    host.read("test -e /usr/bin/prometheus-node-exporter")
    assert host.read("dpkg-query -W -f '${db:Status-Status}' prometheus-node-exporter") == "unpacked"
    done = configure(host)
    assert done.code == 0, done.output
    assert host.read("systemctl is-active prometheus-node-exporter") == "active"


def test_an_address_that_comes_late_is_waited_for(host):
    """As from DHCP at boot: a start without it fails at once."""
    late, units = "10.9.9.9", "prometheus prometheus-node-exporter"
    host.run(f"ip address add {late}/32 dev lo")
    done = configure(host, node_exporter_address=late, prometheus_address=late)
    assert done.code == 0, done.output
    host.run(f"ip address del {late}/32 dev lo; systemctl restart {units}")
    time.sleep(8)
    assert host.run(f"systemctl is-active {units}", check=False).stdout.split() == ["activating"] * 2
    host.run(f"ip address add {late}/32 dev lo")
    wait(lambda: host.read(f"ss -Hltn src {late}").count(late) == 2, 10, "both to listen")
    assert host.run(f"systemctl is-active {units}", check=False).stdout.split() == ["active"] * 2
