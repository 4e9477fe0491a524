"""A small market for tests of the double, and launches in it."""

import json
import urllib.request

import tomli_w

from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running

TAGS = [{"Key": "run", "Value": "r1"}]
BASE = {
    "offers": [
        {
            "region": "us-east-1",
            "zones": ["us-east-1a", "us-east-1b"],
            "instance_types": ["p2.16xlarge", "t3.micro"],
            "on_demand_usd_per_hour": 14.4,
            "spot_usd_per_hour": [["-1d", 1.8]],
        },
    ],
    "images": [{"id": "ami-1", "region": "us-east-1"}],
}


def launch(ec2, zone="us-east-1a", name="p2.16xlarge", spot=True, max_price=None, token="", **options):
    market = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
    if max_price:
        market["SpotOptions"]["MaxPrice"] = max_price
    kinds = ["instance", "volume"] + (["spot-instances-request"] if spot else [])
    options = {"ImageId": "ami-1", "Placement": {"AvailabilityZone": zone}} | options
    return ec2.run_instances(
        InstanceType=name,
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": kind, "Tags": TAGS} for kind in kinds],
        **({"InstanceMarketOptions": market} if spot else {}),
        **({"ClientToken": token} if token else {}),
        **options,
    )["Instances"][0]


def double(**changes):
    return running(Scenario.model_validate(BASE | changes))


def find(ec2, instance_id):
    return ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]


def control(endpoint, action, body=None):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{endpoint}/double/{action}", data) as answer:
        return json.load(answer)


def change(endpoint, **changes):
    """The small market with other changes, from here on."""
    control(endpoint, "scenario", tomli_w.dumps(BASE | changes).encode())


def alive(ec2):
    wanted = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    rows = ec2.describe_instances(Filters=wanted)["Reservations"]
    return [instance["InstanceId"] for row in rows for instance in row["Instances"]]
