"""playbooks/image.yml on a real host behind the double of AWS: an image, and no host that nobody can log in to."""

import json
import subprocess

import pytest

from tests.fakes.aws.clients import client
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.rehearsal.machines import machines
from tests.roles.playing import PROJECT, TOOLS, environment

SCENARIO = {
    "regions": {"us-east-1": {"default_vpc": True}, "us-west-2": {}},
    "offers": [{"region": "us-east-1", "instance_types": ["c6i.large"], "on_demand_usd_per_hour": 0.1}],
    "images": [
        {"id": "ami-1", "region": "us-east-1", "ssm_parameter": "/aws/service/debian/release/12/latest/amd64"}
    ],
    "timing": [{"pending": "forever"}],
}  # fmt: skip
OFFER = {"region": "us-east-1", "zone": "", "market": "on_demand", "instance_type": "c6i.large"}
PROFILE = {"gpus": 0, "architecture": "x86_64", "driver_branch": "", "mxnet_wheel": "mxnet"}


@pytest.fixture(scope="module")
def endpoint():
    with running(Scenario.model_validate(SCENARIO)) as url:
        yield url


@pytest.fixture(scope="module")
def fleet(layers, endpoint, tmp_path_factory):
    with machines(endpoint, layers.bare(), tmp_path_factory.mktemp("disks"), {}) as fleet:
        yield fleet


def play(endpoint, folder, playbook, **settings):
    own = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "double", "AWS_SECRET_ACCESS_KEY": "double"}
    settings = {
        "run_directory": str(folder), "checkpoint_mirror_enabled": False, "instance_profiles": {"c6i.large": PROFILE},
        "spot_instance_ssh_cidr": "192.0.2.7/32", "spot_instance_allow_on_demand": True,
        "spot_instance_max_price_usd": 1, "__machine_image_poll_seconds": 0.5,
        "spot_instance_offers": [OFFER | {"price_usd_per_hour": 0.1}], "found_path": f"{folder}/found.json",
    } | settings  # fmt: skip
    done = subprocess.run(
        [TOOLS / "ansible-playbook", PROJECT / playbook, "-i", PROJECT / "inventory/aws", "--limit", "trainer-1",
         "-e", json.dumps(settings)],
        cwd=PROJECT, env=environment(**own), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800,
        check=False,
    )  # fmt: skip
    print(done.stdout)
    return done


@pytest.mark.slow
def test_a_host_becomes_an_image_and_is_returned(fleet, endpoint, tmp_path):
    tmp_path.joinpath("run").mkdir()
    for entry in ("main", "wait"):
        done = play(endpoint, tmp_path / "run", "tests/aws/spot_instance_play.yml", entry=entry)
        assert done.returncode == 0, done.stdout
    done = play(endpoint, tmp_path / "run", "playbooks/image.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    [image] = [row for row in client(endpoint).describe_images(Owners=["self"])["Images"] if row.get("Tags")]
    tags = {tag["Key"]: tag["Value"] for tag in image["Tags"]}
    assert (tags["kit"], tags["mxnet_wheel"], tags["driver_branch"]) == ("image-trainer", "mxnet", "none")
    assert image["State"] == "available"
    left = [row for rows in fleet.ask("state").values() for row in rows if row["kind"] in ("instance", "volume")]
    assert left == []
    assert not (tmp_path / "run/sealed").exists()
    again = play(endpoint, tmp_path / "run", "playbooks/image.yml")
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
