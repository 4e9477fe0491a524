"""A controller that is killed after any task that changes something: the plays after it end as one whole play does.

For the driver and MXNet see test_killed_driver and test_killed_runtime.
"""

import pytest
from host import wait
from plays import killed_until_done, play
from train_host import RUN, boot, configure, events, unit

RESTART = "Restart it when it started before its settings were written"

pytestmark = [pytest.mark.slow, pytest.mark.boots(by=boot)]


def test_a_fresh_trainer(host):
    changed = killed_until_done(lambda environment: configure(host, environment=environment))
    assert len(changed) == len(set(changed)) >= 12, changed
    assert changed[-1] == "trainer : Train, and wait until steps flow"
    assert unit(host, "ActiveState") == unit(host, "ActiveState", "trainer-monitor.service") == "active"
    assert unit(host, "ActiveState", "data-volume-warm-up.service") == "active"
    assert len(events(host, "start")) == 1
    host.reboot()
    wait(lambda: len(events(host, "start")) == 2 and unit(host, "ActiveState") == "active", 90, "training after a boot")


def test_a_trainer_whose_every_file_changes(host):
    """One restart, at the end, of a trainer that is made from all that is new."""
    started = len(events(host, "start"))
    host.run("echo >>/opt/trainer/digest; sed -i 's/Nice=10/Nice=9/' /etc/systemd/system/data-volume-warm-up.service")
    host.run("install -d -o trainer /srv/mirror")
    changes = {
        "trainer_checkpoint_interval": 45, "trainer_watchdog_seconds": 25, "trainer_power_off": True,
        "trainer_checkpoint_mirror": "file:///srv/mirror",
    }
    changed = killed_until_done(lambda environment: configure(host, environment=environment, **changes))
    assert changed == [
        "data_volume : Install its unit", "trainer : Install the trainer's code",
        "trainer : Write the run's configuration", "trainer : Install the units",
        "trainer : Train, and wait until steps flow",
    ]
    assert len(events(host, "start")) == started + 1
    assert unit(host, "WatchdogUSec") == "25s"
    assert events(host, "start")[-1]["config"]["checkpoint_interval"] == 45
    assert unit(host, "ActiveState", "trainer-power-off.timer") == "active"
    assert host.run(f"test -e {RUN}/config.toml", check=False).returncode == 0


def test_a_machine_that_watches_fresh_and_when_its_every_file_changes(fresh_host, tmp_path):
    host = fresh_host
    (tmp_path / "own.yml").write_text("groups: [{name: own, rules: [{record: 'up:max', expr: 'max(up)'}]}]\n")

    def watching(**settings):
        settings |= {"prometheus_rule_files": [str(tmp_path / "own.yml")]}
        return killed_until_done(
            lambda environment: play(host, ["node_exporter", "prometheus"], settings, **environment))  # fmt: skip

    changed = watching()
    assert len(changed) == len(set(changed)) >= 9, changed
    listening = host.read("ss -Hltn | awk '{print $4}'").split()
    assert {"127.0.0.1:9090", "127.0.0.1:9100"} <= set(listening)
    (tmp_path / "own.yml").write_text("groups: [{name: own, rules: [{record: 'up:min', expr: 'min(up)'}]}]\n")
    changed = watching(node_exporter_port=9101, prometheus_scrape_interval_seconds=1, prometheus_retention_days=7,
                       prometheus_grafana_url="http://10.0.0.9:3000")  # fmt: skip
    assert changed == [
        "node_exporter : Write its settings", f"node_exporter : {RESTART}", "prometheus : Write its options",
        "prometheus : Install the trainers' rules", "prometheus : Install the other rules",
        "prometheus : Write its configuration", f"prometheus : {RESTART}",
    ]
    assert "127.0.0.1:9101" in host.read("ss -Hltn | awk '{print $4}'").split()
    assert "retention.time=7d" in host.read("tr '\\0' ' ' </proc/$(pidof prometheus)/cmdline")
    ask = "import urllib.request as web; print(web.urlopen('http://127.0.0.1:9090/api/v1/{}').read().decode())"
    rules, settings = (host.read(f'python3 -c "{ask.format(path)}"') for path in ("rules", "status/config"))
    assert "up:min" in rules and "up:max" not in rules and "10.0.0.9" in rules
    assert "scrape_interval: 1s" in settings
