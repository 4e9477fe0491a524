"""A host that only costs money powers itself off: after a finished run, and when nothing trains; never before its
checkpoints are in the second place, nor while somebody holds it."""

import json

import host as hosts
import pytest
import role_modules  # noqa: F401
import yaml
from ansible.module_utils.launch_request import user_data
from host import wait
from train_host import RUN, SHORT, boot, configure, events, unit

SECURE = {"trainer_checkpoint_mirror": "file:///srv/mirror"}


UNCONFIGURED = "unconfigured-power-off.timer"


def install(host, unconfigured_minutes):
    """The units of a launch's user data."""
    config = yaml.safe_load(user_data("private", "public", unconfigured_minutes))
    for file in config["write_files"]:
        (host.root / file["path"].lstrip("/")).write_text(file["content"])
    host.run("systemctl daemon-reload")


def test_a_host_that_nobody_configures_powers_itself_off(fresh_host):
    install(fresh_host, unconfigured_minutes=0.2)
    fresh_host.run(f"systemctl enable --now {UNCONFIGURED}")
    assert fresh_host.process.wait(150) == 0  # a timer may be a minute late


@pytest.fixture
def host(runtime_layers, tmp_path):
    booted = boot(runtime_layers, tmp_path)
    booted.run("useradd --system trainer && install -d -o trainer /srv/mirror")
    yield booted
    hosts.down(booted)


def mirrored(host, run):
    """The newest checkpoint in the second place, as this machine sees it in the file system of a host that is off."""
    latest = json.loads((host.root / "srv/mirror" / run / "LATEST").read_text())
    return latest["copies"][0]["name"]


def judge(host):
    return host.run("systemctl start trainer-power-off.service", check=False).returncode


def test_a_finished_run_powers_its_host_off_unless_somebody_holds_it(host):
    host.run("touch /run/trainer-keep-on")
    install(host, unconfigured_minutes=120)
    host.run(f"systemctl enable --now {UNCONFIGURED}")
    done = configure(host, trainer_power_off=True, trainer_power_off_finished_minutes=0.05, **SECURE, **SHORT)
    assert done.code == 0, done.output
    assert [unit(host, name, UNCONFIGURED) for name in ("ActiveState", "UnitFileState")] == ["inactive", "disabled"]
    last = host.read("systemd-analyze security --no-pager trainer-power-off.service | tail -1")
    assert float(last.split("level for")[1].split(":")[1].split()[0]) <= 3, last
    wait(lambda: unit(host, "ActiveState") == "inactive", 90, "the run's end")
    host.run("sleep 4")
    assert judge(host) == 0
    assert unit(host, "ConditionResult", "trainer-power-off.service") == "no"
    again = configure(host, trainer_power_off=True, trainer_power_off_finished_minutes=0.05, **SECURE, **SHORT)
    assert (again.code, again.changed) == (0, []), again.output
    host.run("rm /run/trainer-keep-on")
    assert host.process.wait(90) == 0
    assert mirrored(host, "short")


@pytest.mark.slow
def test_a_trainer_that_stands_still_is_ended_and_its_host_goes_once_the_second_place_has_its_checkpoint(host):
    settings = {
        "trainer_power_off": True, "trainer_power_off_idle_minutes": 0.25, "trainer_stop_seconds": 5,
        "trainer_watchdog_seconds": 600, "trainer_checkpoint_interval": 5,
    }
    done = configure(host, **settings, **SECURE)
    assert done.code == 0, done.output
    host.run("systemctl stop trainer-power-off.timer")  # the test judges
    assert judge(host) == 0
    assert unit(host, "ActiveState") == "active"  # it trains
    host.run("mv /srv/mirror /srv/away")
    saved = len(events(host, "checkpoint"))
    wait(lambda: len(events(host, "checkpoint")) > saved, 120, "a checkpoint that is only here")

    host.run("pkill -STOP -u trainer -f 'trainer (train|mirror)'")
    host.run("sleep 16")
    assert judge(host) != 0  # it is not safe yet
    assert events(host, "stop")[-1]["reason"] == "signal"
    assert unit(host, "ActiveState") == "inactive"
    newest = host.read(f"ls {RUN}/checkpoints | tail -1")
    host.run("mv /srv/away /srv/mirror")
    judge(host)
    assert host.process.wait(60) == 0
    assert mirrored(host, "squares") == newest
