"""train.yml -i inventory/aws from the first look at the market to a training that moved to another zone.

The double of AWS decides prices and capacity, the machines are real hosts, the plays those of a user. The tests follow
one run through its life, in this order.
"""

import contextlib
import json
import socket
import subprocess
import time
import urllib.request

from tests.fakes.aws.clients import client
from tests.rehearsal import market
from tests.rehearsal.killing import kills_until_it_ends, things
from tests.rehearsal.runs import RUN, changed, events, mirrored_step, only, steps, wait

# More of them in test_killed_controller.py.
KILLED_AT = ("iam:AddRoleToInstanceProfile", "ec2:RunInstances", "ec2:CreateVolume")


@contextlib.contextmanager
def tunnel(folder):
    """The monitor's page, as the play says how to reach it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ssh = ["ssh", "-F", folder / "run/trainer-1/ssh/config", "trainer-1", "-N", "-L", f"{port}:127.0.0.1:8470"]
    with subprocess.Popen([*ssh, "-o", "BatchMode=yes"], stdin=subprocess.DEVNULL) as process:
        try:
            wait(lambda: listens(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def get(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as answer:
        return answer.read().decode()


def metrics(url):
    rows = [line.rsplit(" ", 1) for line in get(f"{url}/metrics").splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


def test_a_check_of_nothing_says_what_would_be_launched_and_changes_nothing(play, fleet, folder):
    printed = " ".join(play("train.yml", "--check").split())
    assert "Would launch c6i.large (spot) in us-west-2a at $0.02 an hour" in printed
    assert {row["kind"] for rows in fleet.ask("state").values() for row in rows} == {"snapshot"}
    assert not (folder / "run").exists()


def test_settings_that_cannot_train_are_told_before_anything_is_rented(play):
    printed = " ".join(play("train.yml", "--check", succeeds=False, trainer_base_learning_rate=-1).split())
    told = "settings: base_learning_rate must be the learning rate for a batch of 256, a number above 0, got -1"
    assert told in printed
    assert "Would launch" not in printed


def test_the_cheapest_zone_trains_on_a_copy_of_the_data_set_however_often_the_controller_was_killed(
    fleet, folder, endpoint
):
    fleet.change(market.scenario(faults=[{"action": action, "codes": ["held"]} for action in KILLED_AT]))
    assert kills_until_it_ends(endpoint, folder, "train.yml") == len(KILLED_AT)
    machine = only(fleet)
    assert [row["id"] for row in fleet.ask("bill") if row["kind"] == "instance"] == [machine.id]
    assert steps(machine)
    assert machine.zone == "us-west-2a"
    assert machine.host.read("findmnt -no SOURCE,TARGET /data")
    kinds = {row["id"]: row for row in fleet.ask("state")[market.CHEAP]}
    [copy] = [row for row in kinds.values() if row["kind"] == "snapshot"]
    assert copy["tags"]["dataset"] == "squares"
    assert len([row for row in kinds.values() if row["kind"] == "volume"]) == 2, kinds
    printed = " ".join((folder / "controller.log").read_text().split())
    assert f"ssh -F {folder}/run/trainer-1/ssh/config trainer-1 -L 8470:127.0.0.1:8470" in printed
    assert machine.id in (folder / "run/trainer-1/ledger.json").read_text()


def test_people_log_in_with_the_configuration_that_the_play_wrote(fleet, folder):
    command = ["ssh", "-F", folder / "run/trainer-1/ssh/config", "-o", "BatchMode=yes", "trainer-1", "sudo id -un"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "root"


def test_the_page_and_the_metrics_tell_of_the_training_and_of_what_it_costs(fleet, folder):
    machine = only(fleet)
    price = json.loads(machine.host.read(f"cat {RUN}/price.json"))
    assert (price["instance_id"], price["zone"], price["market"]) == (machine.id, "us-west-2a", "spot")
    assert (price["price_usd_per_hour"], price["on_demand_usd_per_hour"]) == (0.02, 0.085)
    assert price["spent_before_usd"] == 0.02  # the copy of the snapshot
    with tunnel(folder) as url:
        assert "trainer-1" in get(url)
        first = metrics(url)
        assert first["trainer_up"] == 1
        assert first["trainer_price_usd_per_hour"] == 0.02
        assert first["trainer_cost_usd_total"] > 0
        assert wait(lambda: metrics(url)["trainer_steps_total"] > first["trainer_steps_total"])


def test_a_second_run_changes_nothing(play):
    printed = play("train.yml")
    assert changed(printed) == 0, printed


def test_after_a_loss_the_same_command_goes_on_elsewhere_from_the_second_place(play, fleet, folder, endpoint):
    lost = only(fleet)
    step = wait(lambda: mirrored_step(endpoint))
    at = time.time()
    full = market.scenario()
    full["offers"][1]["spot_capacity"] = 0
    fleet.change(full)
    fleet.lose(lost.id)
    wait(lambda: not fleet.by_id)

    play("train.yml")
    found = only(fleet)
    assert (found.zone, found.id != lost.id) == ("us-west-2b", True)
    resumed = events(found, "start")[-1]["resumed_step"]
    assert resumed >= step
    assert steps(found)[-1] > resumed
    volumes = [row for row in fleet.ask("state")[market.CHEAP] if row["kind"] == "volume"]
    assert len(volumes) == 2, volumes  # the root and the data; what the lost host left is gone
    price = json.loads(found.host.read(f"cat {RUN}/price.json"))
    assert (price["instance_id"], price["price_usd_per_hour"]) == (found.id, 0.025)
    with tunnel(folder) as url:
        told = metrics(url)
    assert told["trainer_up"] == 1
    assert told["trainer_last_sample_timestamp_seconds"] > at
    assert told["trainer_last_step_timestamp_seconds"] > at
    assert told["trainer_price_usd_per_hour"] == 0.025


def test_retiring_leaves_nothing_but_the_results_and_what_the_second_place_keeps(play, fleet, folder, endpoint, before):
    [bucket] = [row["Name"] for row in client(endpoint, "s3").list_buckets()["Buckets"]]
    play("retire.yml", "-e", "retire_confirmed=true")
    wait(lambda: not fleet.by_id)
    assert things(endpoint) - before == {bucket}
    assert json.loads((folder / "run/trainer-1/bill.json").read_text())["total_usd"] > 0
    assert (folder / "run/trainer-1/model.json").exists()
    assert not (folder / "run/trainer-1/ssh").exists()
