"""Role trainer on a real host: a unit that trains, is watched, drains, and refuses to start without its data.

The tests follow one host through its life, in this order.
"""

import json
import os
import signal

import pytest
from host import wait
from plays import start
from train_host import PRICE, ROLES, RUN, SETTINGS, SHORT, VOLUME, boot, configure, events, unit, wait_for_start

pytestmark = pytest.mark.boots(by=boot)
START = "trainer : Train, and wait until steps flow"


def page(host, port):
    """The metrics, as a scraper on the host gets them."""
    read = f"import urllib.request as web; print(web.urlopen('http://127.0.0.1:{port}/metrics').read().decode())"
    return host.read(f'python3 -c "{read}"')


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


def test_nothing_is_predicted_for_a_host_that_is_configured(host):
    """What a second run does is seen after the reboot."""
    again = configure(host, "--check")
    assert (again.code, again.changed) == (0, []), again.output


@pytest.mark.parametrize("name", ["trainer.service", "trainer-monitor.service", "trainer-mirror.service"])
def test_the_units_can_do_little_harm(host, name):
    last = host.read(f"systemd-analyze security --no-pager {name} | tail -1")
    assert float(last.split("level for")[1].split(":")[1].split()[0]) <= 3, last


def test_one_process_samples_the_run_and_another_serves_its_page(host):
    wait(lambda: host.run(f"test -s {RUN}/samples.jsonl", check=False).returncode == 0, 30, "samples")
    assert host.read("pgrep -c -u trainer -f 'trainer monitor --run'") == "2"
    assert host.read("pgrep -c -u trainer -f 'trainer monitor --run .* --port 8470$'") == "1"
    assert host.read("cat /sys/fs/cgroup/system.slice/trainer.service/cgroup.procs | wc -l") == "1"
    assert "trainer_steps_total" in page(host, 8470)


def test_a_price_is_noted_for_all_to_read_and_neither_it_nor_another_port_restarts_the_training(host):
    changes = {"trainer_price": PRICE, "trainer_monitor_port": 8471}
    predicted, done = configure(host, "--check", **changes), configure(host, **changes)
    assert done.changed == ["trainer : Note the price of this host", "trainer : Install the units", START], done.output
    assert predicted.changed == done.changed, predicted.output
    assert json.loads(host.read(f"cat {RUN}/price.json")) == PRICE
    assert host.read(f"stat -c '%U %a' {RUN}/price.json") == "trainer 644"
    assert "trainer_steps_total" in page(host, 8471)
    again = configure(host, trainer_monitor_port=8471)
    assert again.changed == ["trainer : Forget the price of the host before"], again.output
    assert host.run(f"test -e {RUN}/price.json", check=False).returncode != 0
    assert len(events(host, "start")) == 1


def test_a_volume_that_is_still_being_read_marks_the_steps_and_the_samples(host):
    progress = {"volume_id": VOLUME, "bytes_read": 1, "bytes_total": 2, "finished": False}
    last = f"tail -n 1 {RUN}/samples.jsonl"
    assert "cold_volume" not in host.read(last)
    kept = host.read("cat /data/.data-volume-warm-up.json")
    host.run(f"echo '{json.dumps(progress)}' >/data/.data-volume-warm-up.json")
    wait(lambda: json.loads(host.read(last)).get("cold_volume") is True, 10, "a cold sample")
    host.run("systemctl restart trainer")
    assert events(host, "step")[-1]["cold_volume"] is True
    host.run(f"echo '{kept}' >/data/.data-volume-warm-up.json")
    wait(lambda: "cold_volume" not in events(host, "step")[-1], 30, "a step that is not cold")


def test_who_waits_sees_progress_and_ctrl_c_leaves_it_training(host):
    started = len(events(host, "start"))
    waiting = start(host, ROLES, SETTINGS | {"trainer_wait": True})
    printed = ""
    for line in waiting.stdout:
        printed += line
        if "Stay until the run has ended" in printed and "images/s" in line:
            os.killpg(waiting.pid, signal.SIGINT)
            break
    printed += waiting.stdout.read()
    assert waiting.wait() == 2, printed
    assert "the host trains on" in " ".join(printed.split())
    assert "journalctl -fu trainer.service" in " ".join(printed.split())
    assert unit(host, "ActiveState") == "active"
    assert len(events(host, "start")) == started


def test_the_restart_for_a_changed_configuration_is_predicted(host):
    process = unit(host, "MainPID")
    done = configure(host, "--check", trainer_checkpoint_interval=40)
    assert done.changed == ["trainer : Write the run's configuration", START], done.output
    assert unit(host, "MainPID") == process


def test_a_changed_configuration_drains_even_when_the_play_that_wrote_it_died(host):
    host.run("sed -i 's/^\\(checkpoint_interval\\) = .*/\\1 = 40.0/' /etc/trainer/trainer.toml")
    done = configure(host, trainer_checkpoint_interval=40)
    assert done.changed == [START], done.output
    assert events(host, "stop")[-1]["reason"] == "signal"
    *_, first, second = events(host, "start")
    assert second["resumed_step"] == events(host, "stop")[-1]["step"] > first["resumed_step"]
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
def test_a_page_that_cannot_be_served_says_why_and_leaves_the_training_alone(host):
    assert configure(host, trainer_checkpoint_interval=40).code == 0
    started = len(events(host, "start"))
    done = configure(host, trainer_checkpoint_interval=40, trainer_monitor_port=22)
    assert done.code != 0
    assert "--port must be free" in done.output.partition("The end of its journal")[2]
    assert (unit(host, "ActiveState"), len(events(host, "start"))) == ("active", started)


@pytest.mark.slow
def test_a_finished_run_is_left_alone(host):
    done = configure(host, trainer_wait=True, **SHORT)
    assert done.code == 0, done.output
    followed = done.output.partition("Stay until the run has ended")[2]
    assert "validation after epoch 0.02" in followed
    assert "state: Finished" in followed
    assert events(host, "stop", "/data/run/short")[-1]["reason"] == "finished"
    again = configure(host, trainer_wait=True, **SHORT)
    assert (again.code, again.changed) == (0, []), again.output
    host.run("systemctl start trainer")
    assert unit(host, "Result") == "success"
    assert len(events(host, "start", "/data/run/short")) == 1


@pytest.mark.slow
def test_steps_that_take_longer_than_a_stop_may_get_the_time_they_need(host):
    """The unit's own limit would end the first step that it waits for."""
    slow = {"trainer_run_name": "slow", "trainer_batch_size": 8192, "trainer_stop_seconds": 1}
    done = configure(host, **slow)
    assert done.code == 0, done.output
    assert unit(host, "TimeoutStopUSec") == "1s"
    wait(lambda: len(events(host, "step", "/data/run/slow")) >= 2, 120, "steps")
    host.run("systemctl stop trainer")
    (stop,) = events(host, "stop", "/data/run/slow")
    assert stop["notice_to_durable_seconds"] > 1
    assert (stop["reason"], unit(host, "Result")) == ("signal", "success")


@pytest.mark.slow
def test_no_secret_is_told(host):
    """What this side has in its environment, and what the operator gave the host for its second place."""
    here, there = "canary-5a1f0c", "canary-77d2be"
    host.run(f"umask 077; echo AWS_SECRET_ACCESS_KEY={there} >/etc/trainer/secrets")
    environment = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), here)
    told = ""
    for settings in ({"trainer_checkpoint_interval": 50}, {"trainer_data_train": "/data/no.rec"}):
        done = configure(host, "-vvv", "--diff", environment=environment, **settings)
        told += done.output
    assert "+checkpoint_interval = 50" in told
    assert "The end of its journal" in told
    told += configure(host, "-vvv", "--diff", environment=environment).output
    process = unit(host, "MainPID")
    assert f"AWS_SECRET_ACCESS_KEY={there}" in host.read(f"tr '\\0' '\\n' </proc/{process}/environ")
    told += host.read("journalctl --no-pager -o export -a")
    told += host.read("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; systemctl show '*'; systemctl cat trainer")
    assert "canary-" not in told
    # Not all canaries: one of Debian's packages is named so, and apt's lists name it.
    places = "/etc /opt/trainer /run /tmp /var /data/run --exclude-dir=journal"
    holding = host.read(f"grep -rla -e {here} -e {there} {places} || true")
    assert holding == "/etc/trainer/secrets"


def test_no_start_without_the_volume_and_nothing_is_written_in_its_place(host):
    assert configure(host, trainer_checkpoint_interval=40).code == 0
    host.run("systemctl stop trainer")
    assert unit(host, "Result") == "success"
    # The page's server outlives the trainer, and has the file system in a name space of its own.
    host.run("systemctl stop trainer-monitor data-volume-warm-up; umount /data")
    host.detach(VOLUME)
    assert host.run("systemctl start trainer", check=False).returncode != 0
    assert host.read("ls -A /data") == ""
