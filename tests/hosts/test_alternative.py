"""The roles with their other options, all in one play on one real host; each role's own file tests its defaults.

The tests follow the host through its life, in this order.
"""

import json

import pytest
from alternative_host import CREDENTIALS, ROLES, RUN, TOKEN, ask, boot, give_token, key_line, settings, value
from host import wait
from plays import KILLED, PROJECT, killed_after, play
from train_host import PRICE, VOLUME, events, unit, wait_for_start

pytestmark = pytest.mark.boots(by=boot)
CHANGES = {"node_exporter_port": 9102, "trainer_checkpoint_interval": 45, "prometheus_retention_days": 8}
OTHER_TOKEN = "canary-token-90af"


@pytest.fixture
def configure(host, tmp_path):
    def configure(*options, environment=None, **changes):
        return play(host, ROLES, settings(host, tmp_path) | changes, *options, **(environment or {}))

    return configure


def page(host, token):
    return ask(host, f"https://{host.address}:8443/metrics", token)


def test_a_fresh_host_is_predicted(host, configure):
    done = configure("--check")
    assert done.code == 0, done.output
    assert done.counts["changed"] > 10
    made = "/srv/set /etc/trainer/trainer.toml /opt/trainer /usr/bin/prometheus /etc/grafana/provisioning"
    assert host.run(f"ls -d {made}", check=False).stdout == ""


def test_all_are_configured_and_no_secret_is_told(host, configure):
    """Those of this side's environment, and those that the operator gave the host."""
    here = "canary-environment-5a1f"
    environment = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), here)
    done = configure("-vvv", "--diff", environment=environment)
    assert done.code == 0, done.output[-5000:]
    assert "+checkpoint_interval = 30" in done.output
    wait(lambda: value(host, "trainer_steps_total") > 0, 60, "a scraped step")
    told = done.output + host.read(
        "journalctl --no-pager -o export -a; cat /proc/[0-9]*/cmdline | tr '\\0' ' '; systemctl show '*';"
        "systemctl cat trainer trainer-monitor prometheus prometheus-node-exporter"
    )
    told += page(host, TOKEN)[1] + ask(host, f"http://{host.address}:9091/api/v1/status/config")[1]
    secrets = [here, TOKEN, CREDENTIALS, key_line(host)]
    assert [secret for secret in secrets if secret in told] == []
    patterns = " ".join(f"-e {secret}" for secret in secrets)
    holding = host.read(f"grep -rlaF {patterns} /etc /home /opt /root /run /srv /tmp /usr/local /var || true").split()
    assert sorted(holding) == ["/etc/page/key.pem", "/etc/page/token", "/etc/prometheus/token", "/etc/trainer/secrets"]
    assert set(host.read(f"stat -c %a {' '.join(holding)} /run/trainer-monitor/revision").split()) == {"600"}


def test_what_they_set_up_is_used(host):
    assert host.read("findmnt -n -o FSTYPE,SOURCE /srv/set; stat -c %U /srv/set").split() == [
        "xfs", host.loop(0), "trainer"]
    assert [page(host, token)[0] for token in (TOKEN, "", OTHER_TOKEN)] == [200, 401, 401]
    assert ask(host, f"http://{host.address}:8443/metrics", TOKEN)[0] == 0
    assert value(host, "trainer_price_usd_per_hour") == PRICE["price_usd_per_hour"]
    assert value(host, "count(node_cpu_seconds_total)") > 0
    assert events(host, "start", RUN)[-1]["config"]["devices"] == ["cpu(0)", "cpu(1)"]
    wait(lambda: "it is now" in host.run("cat /root/alerts.json", check=False).stdout, 60, "the alert")


def test_a_grafana_that_is_there_knows_the_dashboards(host):
    (folder,) = [line.split('"')[1] for line in host.read("cat /etc/grafana/provisioning/dashboards/trainer.yml")
                 .splitlines() if "path:" in line]  # fmt: skip
    boards = sorted((PROJECT / "roles/prometheus/files/dashboards").glob("*.json"))
    assert host.read(f"ls {folder}").split() == [board.name for board in boards]
    began, told = (host.read(f"date +%s -d \"$({command})\"") for command in (
        "systemctl show -P ActiveEnterTimestamp grafana-server",
        "stat -c %y /etc/grafana/provisioning/dashboards/trainer.yml"))
    assert int(began) >= int(told)
    _, rules = ask(host, f"http://{host.address}:9091/api/v1/rules")
    rules = [rule for group in json.loads(rules)["data"]["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} >= {"Now", "TrainerHung", "CostAboveBudget"}
    assert {rule["health"] for rule in rules} == {"ok"}
    assert "http://10.0.0.9:3000/d/trainer-run" in json.dumps(rules)


def test_it_works_after_a_reboot_and_a_second_run_changes_nothing(host, configure):
    host.reboot()
    wait_for_start(host, 2, RUN)
    wait(lambda: value(host, "trainer_steps_total") > 0, 60, "a scraped step after the boot")
    assert value(host, "count(node_cpu_seconds_total)") > 0
    again = configure()
    assert (again.code, again.changed) == (0, []), again.output


def test_changes_are_predicted_and_a_controller_that_dies_half_way_loses_none(host, configure):
    """The volume grows and the token changes on the host, the settings here."""
    host.enlarge(VOLUME, 400)
    give_token(host, OTHER_TOKEN)
    restarts = [f"{role} : Restart it when it started before its settings were written" for role in ROLES]
    predicted = configure("--check", **CHANGES)
    assert predicted.code == 0, predicted.output
    assert host.read("ss -Hltn 'sport = :9102'") == "" and page(host, TOKEN)[0] == 200
    killed = configure(environment=killed_after(3), **CHANGES)
    assert (killed.code, len(killed.changed)) == (KILLED, 3), killed.output
    done = configure(**CHANGES)
    assert done.code == 0, done.output
    changed = killed.changed + done.changed
    assert [task for task in changed if task not in restarts] == predicted.changed
    assert len(changed) == len(set(changed))
    assert "retention.time=8d" in host.read("tr '\\0' ' ' </proc/$(pidof prometheus)/cmdline")
    assert host.read("ss -Hltn 'sport = :9101'") == "" != host.read("ss -Hltn 'sport = :9102'")
    assert [page(host, token)[0] for token in (TOKEN, OTHER_TOKEN)] == [401, 200]
    assert unit(host, "NRestarts") == "0"
    assert events(host, "start", RUN)[-1]["config"]["checkpoint_interval"] == 45
    assert int(host.read("df --output=size -m /srv/set | tail -1")) > 330
