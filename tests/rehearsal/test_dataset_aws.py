"""playbooks/dataset.yml from a bucket to a snapshot in two regions, on a real host behind the double of AWS."""

import json
import subprocess

import pytest
import tiny_data

from tests.fakes.aws.clients import client
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.rehearsal.machines import machines
from tests.roles.playing import PROJECT, TOOLS, environment

REGIONS = ("us-east-1", "us-west-2")
SCENARIO = {
    "regions": {region: {"default_vpc": True} for region in REGIONS},
    "offers": [{"region": "us-east-1", "instance_types": ["m6i.large"], "on_demand_usd_per_hour": 0.096}],
    "images": [
        {"id": "ami-1", "region": "us-east-1", "ssm_parameter": "/aws/service/debian/release/12/latest/amd64"}
    ],
    "timing": [{"pending": "forever"}],
}  # fmt: skip
SETTINGS = {
    "data_set_source": "s3://pictures/shapes", "data_set_copy_regions": ["us-west-2"], "data_set_volume_gb": 1,
    "data_set_source_gb": 1, "__data_set_poll_seconds": 1, "spot_instance_ssh_cidr": "192.0.2.7/32",
    "spot_instance_timeout_seconds": 60,
}  # fmt: skip


@pytest.fixture(scope="module")
def endpoint():
    with running(Scenario.model_validate(SCENARIO)) as url:
        yield url


@pytest.fixture(scope="module")
def fleet(layers, endpoint, tmp_path_factory):
    with machines(endpoint, layers.with_mxnet(), tmp_path_factory.mktemp("disks"), {}) as fleet:
        yield fleet


def fill_bucket(endpoint):
    s3 = client(endpoint, "s3")
    s3.create_bucket(Bucket="pictures")
    for number in range(24):
        key = f"shapes/{'ab'[number % 2]}/{number}.jpg"
        s3.put_object(Bucket="pictures", Key=key, Body=tiny_data.picture(number % 2, number))
    s3.put_object(Bucket="pictures", Key="shapes-of-others/c/0.jpg", Body=b"not below the prefix")


def play(endpoint, folder, *options, **settings):
    own = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "double", "AWS_SECRET_ACCESS_KEY": "double"}
    settings = SETTINGS | {"data_set_manifest_directory": str(folder)} | settings
    done = subprocess.run(
        [TOOLS / "ansible-playbook", PROJECT / "playbooks/dataset.yml", "-i", PROJECT / "inventory/aws",
         "-e", json.dumps(settings), *options],
        cwd=PROJECT, env=environment(**own), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800,
        check=False,
    )  # fmt: skip
    print(done.stdout)
    return done


def snapshots(endpoint, region):
    rows = client(endpoint, region=region).describe_snapshots(OwnerIds=["self"])["Snapshots"]
    found = [(row["SnapshotId"], {tag["Key"]: tag["Value"] for tag in row.get("Tags", [])}) for row in rows]
    return [(snapshot, tags) for snapshot, tags in found if "dataset" in tags]


@pytest.mark.slow
def test_a_bucket_becomes_a_snapshot_in_two_regions_and_nothing_else_is_left(fleet, endpoint, tmp_path):
    fill_bucket(endpoint)
    done = play(endpoint, tmp_path / "run")
    assert done.returncode == 0, done.stdout + done.stderr
    [(snapshot, tags)] = snapshots(endpoint, "us-east-1")
    assert tags["train"] == "22 pictures"
    manifest = json.loads((tmp_path / "run/train.json").read_text())
    assert tags["train_sha256"] == manifest["rec_sha256"]
    [(_, copied)] = snapshots(endpoint, "us-west-2")
    assert copied["copy_of"] == snapshot
    left = [row for rows in fleet.ask("state").values() for row in rows if row["kind"] in ("instance", "volume")]
    assert left == []
    assert client(endpoint, "iam").list_roles()["Roles"] == []
    again = play(endpoint, tmp_path / "run")
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
    assert len(snapshots(endpoint, "us-east-1")) == 1
