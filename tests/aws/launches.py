"""A small market for the role spot_instance, and launches in it as its module makes them."""

import subprocess

import boto3
from ansible.module_utils.launch_here import launch_here
from ansible.module_utils.launch_place import read_place

T3 = "t3.micro"
HOME = "us-west-2"
REGIONS = ("us-east-1", HOME, "eu-west-1")
IMAGE_PARAMETER = "/aws/service/debian/release/12/latest/amd64"


def market(**changes):
    offers = [
        {"region": name, "instance_types": [T3, "t3.small"], "on_demand_usd_per_hour": 14.4, "spot_usd_per_hour": 1.8}
        for name in REGIONS
    ]
    images = [{"id": f"ami-{name}", "region": name, "ssm_parameter": IMAGE_PARAMETER} for name in REGIONS]
    return {"offers": offers, "images": images} | changes


def offer(zone=f"{HOME}a", region=HOME, market="spot", price=1.8, name=T3):
    """As a row of `offers` in plan.json, with what a launch reads of it."""
    return {"region": region, "zone": zone, "market": market, "instance_type": name, "price_usd_per_hour": price}


def ec2(region=HOME):
    return boto3.client("ec2", region_name=region)


def host_key(folder):
    path = folder / "host_ed25519"
    if not path.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def arguments(folder, *offers, **changes):
    """What the module spot_instance_launch gets, with the place as the role would have made it."""
    wanted = {
        "region": HOME, "offers": offers, "subnet_ids": {}, "image_ids": {}, "image_parameter": IMAGE_PARAMETER,
        "profiles": {}, "image_tags": {}, "root_gb": 40,
    }  # fmt: skip
    place = read_place(ec2(), boto3.client("ssm", region_name=HOME), wanted)
    vpc = next(iter(place["subnets"].values()))["vpc_id"]
    group = ec2().describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["SecurityGroups"][0]
    return {
        "run": "r1", "journal_path": str(folder / "launch.json"), "region": HOME, "offers": list(offers),
        "place": place | {"security_groups": {vpc: group["GroupId"]}}, "key_name": "", "max_price_usd": None,
        "host_key": str(host_key(folder)), "unconfigured_minutes": 120, "instance_profile": "",
        "tags": {"kit": "image-trainer", "run": "r1", "Name": "trainer-1"},
        "deadline": 4e9, "shown_seconds": 300,
    } | changes  # fmt: skip


def launch(folder, *offers, **changes):
    return launch_here(arguments(folder, *offers, **changes))
