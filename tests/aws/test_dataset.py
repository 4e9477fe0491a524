"""Role data_set on the controller, against the double of AWS: one snapshot, its copies, and their tags."""

import json
import os

import pytest
from ansible.module_utils.data_set_rules import Refused, choose

from tests.fakes.aws.clients import client
from tests.roles.playing import PROJECT

SOURCE = "s3://pictures/shapes pixels=0 val_share=0.1"
MARKET = {"regions": {"us-east-1": {}, "us-west-2": {}}, "timing": [{"snapshot": 12, "copying": 3}]}
MANIFEST = {"records": 7, "classes": ["a", "b"], "rec_sha256": "0" * 64}


def row(state, name="snap-1", made_from=SOURCE, message=""):
    return {"id": name, "state": state, "message": message, "tags": {"made_from": made_from}}


@pytest.mark.parametrize(
    ("rows", "made_id", "chosen"),
    [
        ([], "", None), ([row("completed")], "", "snap-1"), ([row("pending")], "", "snap-1"),
        ([row("error")], "", None), ([row("error"), row("pending", "snap-2")], "snap-2", "snap-2"),
        ([{"id": "snap-1", "state": "completed", "tags": {}}], "", "snap-1"),
    ],
)  # fmt: skip
def test_the_snapshot_is_the_one_that_is_there_or_on_its_way(rows, made_id, chosen):
    assert (choose(rows, SOURCE, made_id) or {}).get("id") == chosen


@pytest.mark.parametrize(
    ("rows", "made_id", "words"),
    [
        ([row("completed"), row("pending", "snap-2")], "", r"got snap-1 \(completed\), snap-2 \(pending\)"),
        ([row("error", message="no key")], "snap-1", "snap-1 ended in an error, AWS says: no key"),
        ([row("completed", made_from="photos")], "", "snap-1 has the same name and was made from photos, not from s3"),
    ],
)
def test_several_a_failed_one_and_one_of_something_else_are_refused_in_words(rows, made_id, words):
    with pytest.raises(Refused, match=words):
        choose(rows, SOURCE, made_id)


@pytest.fixture
def keep(play, tmp_path):
    """`keep("vol-1", name=value)`: what dataset.yml does with the volume once the records are on it."""
    for name in ("train", "val"):
        (tmp_path / f"{name}.json").write_text(json.dumps(MANIFEST))

    def run(volume_id, *options, **settings):
        wanted = {
            "data_set_volume_id": volume_id, "data_set_source": "s3://pictures/shapes", "data_set_name": "shapes",
            "data_set_manifest_directory": str(tmp_path), "data_set_copy_regions": ["us-west-2"],
            "__data_set_poll_seconds": 3,
        } | settings  # fmt: skip
        return play("../tests/aws/dataset_play.yml", json.dumps(wanted), *options)

    return run


def blank_volume():
    return client(os.environ["AWS_ENDPOINT_URL"]).create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]


def snapshots(region):
    rows = client(os.environ["AWS_ENDPOINT_URL"], region=region).describe_snapshots(OwnerIds=["self"])["Snapshots"]
    tagged = [row | {"tags": {tag["Key"]: tag["Value"] for tag in row.get("Tags", [])}} for row in rows]
    return [row for row in tagged if row["tags"].get("dataset") == "shapes"]


def test_one_snapshot_and_one_copy_with_what_they_hold(aws, keep):
    with aws(MARKET):
        volume = blank_volume()
        done = keep(volume)
        assert done.returncode == 0, done.stdout
        assert "to be complete: " in done.stdout
        [made], [copy] = snapshots("us-east-1"), snapshots("us-west-2")
        expected = {
            "kit": "image-trainer", "dataset": "shapes", "Name": "shapes", "train": "7 pictures", "classes": "2",
            "train_sha256": "0" * 64, "made_from": SOURCE,
        }  # fmt: skip
        assert made["tags"].items() >= expected.items()
        assert "run" not in made["tags"]
        assert copy["tags"]["copy_of"] == made["SnapshotId"]
        again = keep("")
        assert again.returncode == 0, again.stdout
        assert "changed=0" in again.stdout
        assert (len(snapshots("us-east-1")), len(snapshots("us-west-2"))) == (1, 1)
        other = keep("", data_set_pixels=256)
        assert "was made from s3://pictures/shapes pixels=0 val_share=0.1, not from" in " ".join(other.stdout.split())


@pytest.mark.slow
def test_a_lost_answer_makes_no_second_snapshot(aws, keep):
    with aws(MARKET | {"timing": [], "faults": [{"action": "CreateSnapshot", "codes": ["lost"]}]}):
        done = keep(blank_volume(), data_set_copy_regions=[])
        assert done.returncode == 0, done.stdout
        assert len(snapshots("us-east-1")) == 1


def test_a_copy_that_fails_says_why(aws, keep):
    with aws(MARKET | {"timing": [{"copying_ends": "error", "copying_message": "Given key ID is not accessible"}]}):
        done = keep(blank_volume())
        assert done.returncode == 2
        assert "Given key ID is not accessible" in " ".join(done.stdout.split())


BAD = [
    ({"data_set_source": ""}, 'got "shapes", "", 0, 0.1'),
    ({"data_set_source": "s3://B"}, 'got "shapes", "s3://B", 0, 0.1'),
    ({"data_set_name": "my pictures"}, 'got "my pictures", "photos", 0, 0.1'),
    ({"data_set_val_share": 1}, 'got "shapes", "photos", 0, 1'),
    ({}, 'must be s3://bucket/prefix where a machine is rented to pack it, got "photos"'),
]


def test_bad_settings_are_an_error_in_words(play, tmp_path):
    """One play, and each of its hosts has a setting of its own."""
    hosts = {f"dataset-{number}": settings for number, (settings, _) in enumerate(BAD)}
    common = {"checkout": str(PROJECT), "data_set_source": "photos", "data_set_name": "shapes",
              "data_set_region": "us-east-1", "data_set_manifest_directory": str(tmp_path)}  # fmt: skip
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"data_sets": {"hosts": hosts, "vars": common}}))
    done = play("../tests/aws/dataset_play.yml", "--check", inventory=inventory)
    assert done.returncode == 2
    told = " ".join(done.stdout.split())
    for number, (_, message) in enumerate(BAD):
        assert message in told.split(f"fatal: [dataset-{number}]: ")[1].split("fatal: ")[0]
