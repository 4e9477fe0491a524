"""playbooks/image.yml from a host that trains to a launch of what was baked, on real hosts behind the double of AWS.

The tests follow one run through its life, in this order: a bare machine, its image, a machine that boots it.
"""

import json

import pytest

from tests.fakes.aws.clients import client
from tests.rehearsal import market
from tests.rehearsal.killing import held, kills_until_it_ends, things
from tests.rehearsal.runs import changed, changed_tasks, events, mirrored_step, only, steps, wait

pytestmark = pytest.mark.slow
IMAGE = {"machine_image_copy_regions": [market.HOME], "__machine_image_poll_seconds": 0.5}
LOGS = ("var/log", "var/lib/trainer", "var/lib/cloud")
# What a machine that boots the image must still do: its volume is another one, and no run is in the image. Neither
# packages nor driver, runtime, code and units are among it.
OWN = [
    "data_volume : Mount the volume",
    "data_volume : Mount it at every boot that finds it, and boot without it otherwise",
    "data_volume : Mark the volume, for those who must know that it is mounted",
    "data_volume : Install its unit",
    "data_volume : Start it",
    "trainer : Make the run's directory",
    "trainer : Make the configuration's directory",
    "trainer : Write the run's configuration",
    "trainer : Show the configuration in the run's directory",
    "trainer : Note the price of this host",
    "trainer : Bring checkpoints, log and tuning, if they are there",
    "trainer : Train, and wait until steps flow",
]


@pytest.fixture(scope="module")
def boots(layers):
    """Nothing of the kit: what a baked image has is what the first play has made."""
    return layers.bare()


@pytest.fixture(scope="module", autouse=True)
def machine(play, fleet, folder, endpoint):
    """The first one: it has trained, its second place has a checkpoint, and it is stopped."""
    play("train.yml")
    print(f"bare image: {seconds_to_first_step(folder, only(fleet)):.0f} s from launch to first step")
    wait(lambda: mirrored_step(endpoint))
    play("stop.yml")
    return only(fleet)


@pytest.fixture(scope="module")
def secrets(machine):
    """What an image must not have of its host: id, host key, and who logs in."""
    root = machine.host.root
    login = (root / "home/admin/.ssh/authorized_keys").read_text().split()[1]
    key = (root / "etc/ssh/ssh_host_ed25519_key").read_text().splitlines()[1:-1]
    return [(root / "etc/machine-id").read_text().strip(), login, *key]


def seconds_to_first_step(folder, machine):
    """From the launch, as the ledger tells it."""
    ledger = json.loads((folder / "run/trainer-1/ledger.json").read_text())
    [launched] = [row["from"] for row in ledger["rows"].values() if row["id"] == machine.id]
    return min(event["t"] for event in events(machine, "step") if event["t"] > launched) - launched


def baked(endpoint, region):
    """The kit's only image there, with its tags."""
    rows = client(endpoint, region=region).describe_images(Owners=["self"])["Images"]
    [(image, tags)] = [(row, tags) for row in rows if (tags := {tag["Key"]: tag["Value"] for tag in row["Tags"]})]
    return image, tags


def test_a_host_becomes_one_image_however_often_the_controller_is_killed(
    play, fleet, folder, endpoint, before, machine, secrets
):
    there = things(endpoint)
    fleet.change(market.scenario(faults=held("ec2")))  # the host's own calls, to its second place, are answered
    assert kills_until_it_ends(endpoint, folder, "image.yml", **IMAGE) >= 5
    fleet.change(market.scenario())
    image, tags = baked(endpoint, market.CHEAP)
    assert (image["State"], baked(endpoint, market.HOME)[1]) == ("available", tags)
    assert (tags["kit"], tags["mxnet_wheel"], tags["driver_branch"]) == ("image-trainer", "mxnet", "535")
    # The way to the second place is the run's, which goes on.
    assert {name.split("-")[0] for name in things(endpoint) - before} == {"trainer"}
    assert machine.id in there
    wait(lambda: not fleet.by_id)
    assert not (folder / "run/trainer-1/sealed").exists()
    ledger = json.loads((folder / "run/trainer-1/ledger.json").read_text())
    assert machine.id in {row["id"] for row in ledger["rows"].values()}
    printed = play("image.yml", **IMAGE)
    assert changed(printed) == 0, printed


def test_nothing_of_the_host_itself_is_in_the_image(fleet, endpoint, secrets):
    [layer, *_] = fleet.images.layers(baked(endpoint, market.CHEAP)[0]["ImageId"])
    files = [path for path in layer.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.is_relative_to(layer / "opt/mxnet") for path in files)
    assert [path for path in files for secret in secrets if secret.encode() in path.read_bytes()] == []
    assert [path for path in files for folder in LOGS if path.is_relative_to(layer / folder)] == []


def test_the_next_launch_boots_it_and_goes_on_with_nothing_left_to_install(play, fleet, folder, endpoint):
    over_there = mirrored_step(endpoint)
    printed = play("train.yml")
    machine = only(fleet)
    print(f"baked image: {seconds_to_first_step(folder, machine):.0f} s from launch to first step")
    [row] = client(endpoint, region=market.CHEAP).describe_instances(InstanceIds=[machine.id])["Reservations"]
    assert row["Instances"][0]["ImageId"] == baked(endpoint, market.CHEAP)[0]["ImageId"]
    assert events(machine, "start")[-1]["resumed_step"] == over_there
    assert steps(machine)[-1] > over_there
    assert changed_tasks(printed.partition("PLAY [Prepare the rented machine]")[2]) == OWN, printed
    printed = play("train.yml")
    assert changed(printed) == 0, printed


def test_retiring_leaves_the_images_alone(play, endpoint, before):
    play("retire.yml", "-e", "retire_confirmed=true", "-e", "checkpoint_mirror_keep=false")
    assert things(endpoint) == before
    assert baked(endpoint, market.CHEAP)
