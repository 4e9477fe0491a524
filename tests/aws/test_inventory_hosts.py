"""inventory/aws/: what shall be (hosts.yml) and what is (aws_ec2.yml) meet by name."""

import json
import subprocess

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.roles.playing import PROJECT, TOOLS, environment

AWS = PROJECT / "inventory/aws"
KIT = {"kit": "image-trainer", "run": "trainer-1", "Name": "trainer-1"}
MARKET = {
    "regions": {"us-east-1": {}, "us-west-2": {}, "eu-west-1": {}, "ap-east-1": {"opt_in": "not-opted-in"}},
    "offers": [{"region": "us-west-2", "instance_types": ["c6i.large"], "on_demand_usd_per_hour": 0.085}],
    "faults": [{"region": "eu-west-1", "codes": ["UnauthorizedOperation"], "forever": True}],
}


def instance(**tags):
    return {"region": "us-west-2", "zone": "us-west-2a", "instance_type": "c6i.large", "tags": tags}


def hosts():
    command = [TOOLS / "ansible-inventory", "-i", AWS, "--list"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    return found["_meta"]["hostvars"], found


def test_a_trainer_has_the_facts_of_its_home_and_of_its_instance(aws):
    there = [instance(**KIT), instance(Name="somebody-else"), instance(**KIT | {"Name": "x"})]
    with aws(MARKET | {"instances": there}):
        variables, groups = hosts()
    trainer = variables["trainer-1"]
    assert trainer["region_name"] == "us-west-2"
    assert "i-" in str(trainer["aws_instance_id"])
    assert "trainer-1" in str(trainer["aws_tags"]["run"])
    assert "somebody-else" not in variables
    # Another run's instance is known by its name, and no playbook for trainers touches it.
    assert set(groups["aws_ec2"]["hosts"]) == {"trainer-1", "x"}
    assert groups["aws_region_us_west_2"]["hosts"] == ["trainer-1"]


def test_a_trainer_that_is_not_there_yet_has_the_facts_of_its_home(aws):
    with aws(MARKET):
        variables, _ = hosts()
    assert variables["trainer-1"]["region_name"] == "us-west-2"
    assert "aws_instance_id" not in variables["trainer-1"]


def setting(name, **variables):
    """A setting of inventory/aws/group_vars/trainers.yml where these variables are known."""
    text = yaml.safe_load((AWS / "group_vars/trainers.yml").read_text())[name]
    return Templar(DataLoader(), variables).template(trust_as_template(text))


OFFERS = [
    {"region": region, "zone": zone}
    for region, zone in (
        ("us-west-2", "us-west-2a"), ("us-west-2", None), ("us-west-2", "us-west-2b"), ("us-east-1", None)
    )
]  # fmt: skip


@pytest.mark.parametrize(("zone", "places"), [("us-west-2b", [1, 2]), ("us-west-2a", [0, 1]), ("eu-west-1a", [])])
def test_a_run_that_is_pinned_to_a_zone_has_its_offers_on_demand_there_too(zone, places):
    pinned = setting("spot_instance_offers", spot_market_offers=OFFERS, run_zone=zone)
    assert pinned == [OFFERS[place] | {"zone": zone} for place in places]


def test_each_region_boots_the_image_of_its_own_parameter():
    regions = [{"region_name": name, "region_image_ssm_parameter": f"/{name}"} for name in ("us-east-1", "us-west-2")]
    expected = {"us-east-1": "/us-east-1", "us-west-2": "/us-west-2"}
    assert setting("spot_instance_image_parameters", regions=regions) == expected
