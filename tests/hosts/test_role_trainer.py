"""Role trainer on a real host: a unit that trains, is watched, drains, and refuses to start without its data.

The tests follow one host through its life, in this order.
"""

import json

import host as hosts
import pytest
from host import wait
from network import call
from plays import play
from tiny_data import CLASSES, write_records

VOLUME = "vol-0123456789abcdef0"
RUN = "/data/run/squares"
START = "trainer : Train, and wait until steps flow"
SETTINGS = {
    "data_volume_id": VOLUME, "data_volume_wait_seconds": 20, "data_volume_device_timeout_seconds": 3,
    "trainer_service": True, "trainer_code_directory": "/opt/trainer", "trainer_python": "/opt/mxnet/bin/python",
    "trainer_data_directory": "/data/sets", "trainer_runs_directory": "/data/run", "trainer_run_name": "squares",
    "trainer_data_train": "/data/train.rec", "trainer_data_val": "/data/val.rec", "trainer_num_classes": CLASSES,
    "trainer_image_shape": [3, 28, 28], "trainer_num_layers": 8, "trainer_batch_size": 16, "trainer_epochs": 100000,
    "trainer_augmentation": "none", "trainer_decode_threads": 1, "trainer_checkpoint_interval": 30,
    "trainer_watchdog_seconds": 20, "trainer_required_paths": ["/data/.data-volume.json"],
}


def configure(host, *options, **settings):
    return play(host, ["data_volume", "trainer"], SETTINGS | settings, *options)


@pytest.fixture(scope="module")
def host(runtime_layers, tmp_path_factory):
    """A host with MXNet and a volume that holds train.rec and val.rec."""
    records, image = tmp_path_factory.mktemp("records"), tmp_path_factory.mktemp("disk") / "data.img"
    write_records(records / "train.rec", 20_000)
    write_records(records / "val.rec", 40, seed=1)
    with open(image, "wb") as file:
        file.truncate(128 << 20)
    call("mkfs.ext4", "-q", "-d", str(records), str(image))
    booted = hosts.up(runtime_layers)
    booted.attach(VOLUME, image)
    # The plays share this machine's cores with the training.
    drop_in = "/etc/systemd/system/trainer.service.d"
    booted.run(f"mkdir {drop_in} && printf '[Service]\\nNice=19\\n' > {drop_in}/nice.conf")
    yield booted
    hosts.down(booted)


def events(host, kind, run=RUN):
    lines = host.run(f"cat {run}/events.jsonl", check=False).stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def unit(host, name, unit="trainer.service"):
    return host.read(f"systemctl show -P {name} {unit}")


def wait_for_start(host, count):
    """Until the trainer was started that many times and has steps again."""
    wait(lambda: len(events(host, "start")) >= count, 90, f"start {count} of the trainer")
    wait(lambda: unit(host, "ActiveState") == "active", 90, "its first step")


def test_a_fresh_host_is_predicted_and_changed_by_nothing_but_the_real_run(host):
    done = configure(host, "--check")
    assert done.code == 0, done.output
    assert done.counts["changed"] > 0
    assert host.run("ls /etc/trainer /opt/trainer /etc/systemd/system/trainer.service", check=False).stdout == ""


def test_the_play_ends_when_steps_flow(host):
    done = configure(host)
    assert done.code == 0, done.output
    assert START in done.changed
    assert events(host, "step")
    assert unit(host, "ActiveState") == "active"
    assert unit(host, "ActiveState", "trainer-monitor.service") == "active"
    assert host.read(f"stat -c %U {RUN}/events.jsonl") == "trainer"
    assert host.read("systemctl show -P StatusText trainer.service").startswith("step ")


def test_a_second_run_changes_nothing(host):
    for options in ([], ["--check"]):
        again = configure(host, *options)
        assert (again.code, again.changed) == (0, []), again.output


@pytest.mark.parametrize("name", ["trainer.service", "trainer-monitor.service"])
def test_the_units_can_do_little_harm(host, name):
    last = host.read(f"systemd-analyze security --no-pager {name} | tail -1")
    assert float(last.split("level for")[1].split(":")[1].split()[0]) <= 3, last


def test_a_changed_configuration_drains_even_when_the_play_that_wrote_it_died(host):
    host.run("sed -i 's/^\\(checkpoint_interval\\) = .*/\\1 = 40.0/' /etc/trainer/trainer.toml")
    done = configure(host, trainer_checkpoint_interval=40)
    assert done.changed == [START], done.output
    assert [event["reason"] for event in events(host, "stop")] == ["signal"]
    first, second = events(host, "start")
    assert second["resumed_step"] == events(host, "stop")[0]["step"] > first["resumed_step"]
    assert unit(host, "NRestarts") == "0"


@pytest.mark.slow
def test_a_trainer_that_is_killed_or_hangs_is_started_again(host):
    assert configure(host, trainer_checkpoint_interval=40).code == 0
    started = len(events(host, "start"))
    host.run("pkill -9 -u trainer -f 'trainer train'")
    wait_for_start(host, started + 1)
    host.run("pkill -STOP -u trainer -f -- '-m trainer train'")
    wait(lambda: "watchdog" in host.read("journalctl -u trainer -o cat | tail -50").lower(), 60, "the watchdog")
    wait_for_start(host, started + 2)
    assert unit(host, "NRestarts") == "2"


def test_it_trains_on_after_a_reboot(host):
    started = len(events(host, "start"))
    host.reboot()
    wait_for_start(host, started + 1)
    assert events(host, "stop")[-1]["reason"] == "signal"
    assert events(host, "start")[-1]["resumed_step"] == events(host, "stop")[-1]["step"]
    after = configure(host, trainer_checkpoint_interval=40)
    assert (after.code, after.changed) == (0, []), after.output


@pytest.mark.slow
@pytest.mark.parametrize("settings, words", [
    ({"trainer_devices": ["gpu(0)"]}, "gpu(0)"), ({"trainer_data_train": "/data/no.rec"}, "/data/no.rec"),
], ids=["no GPU", "no data"])
def test_a_start_that_cannot_succeed_says_why_and_is_not_repeated(host, settings, words):
    done = configure(host, **settings)
    assert done.code != 0
    assert words in done.output.partition("The end of its journal")[2]
    assert unit(host, "NRestarts") == "0"
    assert unit(host, "ActiveState") in ("failed", "inactive")


@pytest.mark.slow
def test_a_finished_run_is_left_alone(host):
    short = {"trainer_run_name": "short", "trainer_epochs": 0.02, "trainer_warmup_epochs": 0}
    done = configure(host, **short)
    assert done.code == 0, done.output
    wait(lambda: unit(host, "ActiveState") == "inactive", 60, "the run's end")
    assert events(host, "stop", "/data/run/short")[-1]["reason"] == "finished"
    again = configure(host, **short)
    assert (again.code, again.changed) == (0, []), again.output


def test_no_start_without_the_volume_and_nothing_is_written_in_its_place(host):
    assert configure(host, trainer_checkpoint_interval=40).code == 0
    host.run("systemctl stop trainer")
    assert unit(host, "Result") == "success"
    host.run("systemctl stop data-volume-warm-up; umount /data")
    host.detach(VOLUME)
    assert host.run("systemctl start trainer", check=False).returncode != 0
    assert host.read("ls -A /data") == ""
