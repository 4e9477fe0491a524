"""playbooks/dataset.yml from a bucket to a snapshot in two regions, on a real host behind the double of AWS."""

import json

import pytest
import tiny_data

from tests.fakes.aws.clients import client
from tests.rehearsal import market
from tests.rehearsal.killing import ends_by_itself, held, kills_until_it_ends, things
from tests.rehearsal.runs import changed

SETTINGS = {
    "data_set_source": "s3://pictures/shapes", "data_set_copy_regions": [market.CHEAP], "data_set_volume_gb": 1,
    "data_set_source_gb": 1, "__data_set_poll_seconds": 1,
}  # fmt: skip
RETIRE = ("retire.yml", "--limit", "dataset-imagenet", "-e", "retire_confirmed=true")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scenario():
    """The market, and the type that data sets are packed on."""
    packs = {"region": market.HOME, "instance_types": ["m6i.large"], "on_demand_usd_per_hour": 0.096}
    return market.scenario() | {"offers": [*market.scenario()["offers"], packs]}


@pytest.fixture(scope="module")
def before(endpoint):
    """What is at AWS before the first play, the pictures among it."""
    s3 = client(endpoint, "s3")
    s3.create_bucket(Bucket="pictures")
    for number in range(24):
        key = f"shapes/{'ab'[number % 2]}/{number}.jpg"
        s3.put_object(Bucket="pictures", Key=key, Body=tiny_data.picture(number % 2, number))
    s3.put_object(Bucket="pictures", Key="shapes-of-others/c/0.jpg", Body=b"not below the prefix")
    return things(endpoint)


def snapshots(endpoint, region):
    rows = client(endpoint, region=region).describe_snapshots(OwnerIds=["self"])["Snapshots"]
    found = [(row["SnapshotId"], {tag["Key"]: tag["Value"] for tag in row.get("Tags", [])}) for row in rows]
    return [(snapshot, tags) for snapshot, tags in found if tags.get("dataset") == "imagenet"]


def test_a_volume_that_the_killed_play_did_not_format_can_be_returned(
    play, fleet, folder, endpoint, scenario, before
):
    fleet.change(scenario | {"faults": [{"action": "AttachVolume", "codes": ["held"]}]})
    assert not ends_by_itself(endpoint, folder, "dataset.yml", **SETTINGS)
    play(*RETIRE, **SETTINGS)
    assert things(endpoint) == before


def test_a_bucket_becomes_a_snapshot_in_two_regions_however_often_the_controller_is_killed(
    play, fleet, folder, endpoint, scenario, before
):
    fleet.change(scenario | {"faults": held()})
    assert kills_until_it_ends(endpoint, folder, "dataset.yml", **SETTINGS) >= 18
    [(snapshot, tags)] = snapshots(endpoint, market.HOME)
    assert tags["train"] == "22 pictures"
    manifest = json.loads((folder / "run/dataset-imagenet/train.json").read_text())
    assert tags["train_sha256"] == manifest["rec_sha256"]
    [(_, copied)] = snapshots(endpoint, market.CHEAP)
    assert copied["copy_of"] == snapshot
    assert things(endpoint) == before
    fleet.change(scenario)
    printed = play("dataset.yml", **SETTINGS)
    assert changed(printed) == 0, printed
    assert len(snapshots(endpoint, market.HOME)) == 1
    rows = json.loads((folder / "run/dataset-imagenet/bill.json").read_text())["rows"]
    assert [row["kind"] for row in rows].count("instance") == 2  # the one that was returned, too
