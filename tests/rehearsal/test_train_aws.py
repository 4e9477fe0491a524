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

import pytest

from tests.fakes.aws.clients import client
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.rehearsal import playing
from tests.rehearsal.machines import machines

RUN = "/var/lib/trainer/run/trainer-1"


@pytest.fixture(scope="module")
def market(layers):
    """The module with the market; it needs what tests/hosts needs."""
    from tests.rehearsal import market

    return market


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The user's directory: runs lie in it."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def endpoint(market):
    with running(Scenario.model_validate(market.scenario())) as url:
        yield url


@pytest.fixture(scope="module")
def fleet(layers, market, endpoint, tmp_path_factory):
    image = market.data_set(tmp_path_factory.mktemp("data"))
    with machines(endpoint, layers.with_mxnet(), tmp_path_factory.mktemp("disks"), {market.SNAPSHOT: image}) as fleet:
        yield fleet


@pytest.fixture
def play(fleet, market, folder, endpoint):
    """`play("train.yml", "--check", name=value)` as the user does; it must succeed."""

    def play(name, *options, **settings):
        credentials = playing.credentials(endpoint)
        done = playing.playbook(name, market.settings(**settings), folder, *options, **credentials)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return play


def changed(printed):
    return int(printed.rpartition("changed=")[2].split()[0])


def only(fleet):
    [machine] = fleet.by_id.values()
    return machine


def steps(machine):
    lines = machine.host.read(f"cat {RUN}/events.jsonl").splitlines()
    return [event["step"] for event in map(json.loads, lines) if event["kind"] == "step"]


def mirrored_step(endpoint):
    """Of the newest checkpoint in the second place; 0 without any."""
    s3 = client(endpoint, "s3")
    [bucket] = [row["Name"] for row in s3.list_buckets()["Buckets"]]
    found = s3.list_objects_v2(Bucket=bucket, Prefix="runs/trainer-1/LATEST").get("Contents")
    if not found:
        return 0
    latest = json.loads(s3.get_object(Bucket=bucket, Key=found[0]["Key"])["Body"].read())
    return latest["copies"][0]["step"] if latest["copies"] else 0


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


def wait(condition, limit_seconds=300):
    deadline = time.monotonic() + limit_seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {limit_seconds} s"
        time.sleep(0.5)
    return found


def test_a_check_of_nothing_says_what_would_be_launched_and_changes_nothing(play, fleet, folder):
    printed = " ".join(play("train.yml", "--check").split())
    assert "Would launch c6i.large (spot) in us-west-2a at $0.02 an hour" in printed
    assert {row["kind"] for rows in fleet.ask("state").values() for row in rows} == {"snapshot"}
    assert not (folder / "run").exists()


def test_the_cheapest_zone_trains_on_a_copy_of_the_data_set(play, fleet, market, folder):
    printed = play("train.yml")
    machine = only(fleet)
    assert steps(machine)
    assert machine.zone == "us-west-2a"
    assert machine.host.read("findmnt -no SOURCE,TARGET /data")
    [copy] = [row for row in fleet.ask("state")[market.CHEAP] if row["kind"] == "snapshot"]
    assert copy["tags"]["dataset"] == "squares"
    assert f"ssh -F {folder}/run/trainer-1/ssh/config trainer-1 -L 8470:127.0.0.1:8470" in " ".join(printed.split())
    ledger = json.loads((folder / "run/trainer-1/ledger.json").read_text())
    assert machine.id in json.dumps(ledger)


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


@pytest.mark.parametrize("options", [[], ["--check"]], ids=["again", "check"])
def test_a_second_run_changes_nothing(play, options):
    printed = play("train.yml", *options)
    assert changed(printed) == 0, printed


def test_after_a_loss_the_same_command_goes_on_elsewhere_from_the_second_place(play, fleet, market, folder, endpoint):
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
    started = [json.loads(line) for line in found.host.read(f"cat {RUN}/events.jsonl").splitlines()]
    resumed = [event["resumed_step"] for event in started if event["kind"] == "start"][-1]
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


def test_retiring_leaves_nothing_that_costs_money(play, fleet, folder, endpoint):
    play("retire.yml", "-e", "retire_confirmed=true")
    wait(lambda: not fleet.by_id)
    left = [row for rows in fleet.ask("state").values() for row in rows if "run" in row["tags"]]
    assert left == []
    assert json.loads((folder / "run/trainer-1/bill.json").read_text())["total_usd"] > 0
    assert not (folder / "run/trainer-1/ssh").exists()
