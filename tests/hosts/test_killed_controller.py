"""A controller that is killed after any task that changes something: the plays after it end as one whole play does.

Each play changes one thing more and is killed then, until there is nothing left to change.
"""

from pathlib import Path

import host as hosts
import pytest
from host import wait
from train_host import RUN, boot, configure, events, unit

CALLBACKS = Path(__file__).with_name("callbacks")
KILLED = 9
MOST_CHANGES = 40

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def host(runtime_layers, tmp_path_factory):
    booted = boot(runtime_layers, tmp_path_factory.mktemp("host"))
    yield booted
    hosts.down(booted)


def killed_until_done(host, **settings):
    """The tasks that changed something, one a play."""
    changed = []
    for _ in range(MOST_CHANGES):
        done = configure(host, environment={"ANSIBLE_CALLBACK_PLUGINS": str(CALLBACKS)}, **settings)
        changed += done.changed
        if done.code == 0:
            return changed
        assert (done.code, len(done.changed)) == (KILLED, 1), done.output
    raise AssertionError(f"no end after {changed}")


def test_a_fresh_host(host):
    changed = killed_until_done(host)
    assert len(changed) == len(set(changed)) >= 12, changed
    assert changed[-1] == "trainer : Train, and wait until steps flow"
    assert unit(host, "ActiveState") == unit(host, "ActiveState", "trainer-monitor.service") == "active"
    assert unit(host, "ActiveState", "data-volume-warm-up.service") == "active"
    assert len(events(host, "start")) == 1
    host.reboot()
    wait(lambda: len(events(host, "start")) == 2 and unit(host, "ActiveState") == "active", 90, "training after a boot")


def test_a_host_whose_every_file_changes(host):
    """One restart, at the end, of a trainer that is made from all that is new."""
    started = len(events(host, "start"))
    host.run("echo >>/opt/trainer/digest; sed -i 's/Nice=10/Nice=9/' /etc/systemd/system/data-volume-warm-up.service")
    host.run("install -d -o trainer /srv/mirror")
    changes = {
        "trainer_checkpoint_interval": 45, "trainer_watchdog_seconds": 25, "trainer_power_off": True,
        "trainer_checkpoint_mirror": "file:///srv/mirror",
    }
    changed = killed_until_done(host, **changes)
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
