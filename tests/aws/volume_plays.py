"""A run with an instance in a small market, and plays of role data_volume's AWS side for it."""

import json
import os
import subprocess

from tests.fakes.aws.clients import client
from tests.roles.playing import TOOLS, environment

TAGS = {"kit": "image-trainer", "run": "r1"}
MARKET = {
    "regions": {"us-east-1": {}, "eu-west-1": {}, "ap-east-1": {"opt_in": "not-opted-in"}},
    "offers": [
        {"region": region, "instance_types": ["t3.micro"], "on_demand_usd_per_hour": 0.1, "spot_usd_per_hour": 0.03}
        for region in ("us-east-1", "eu-west-1")
    ],
    "images": [{"id": "ami-1", "region": "us-east-1"}, {"id": "ami-2", "region": "eu-west-1"}],
    "snapshots": [{"id": "snap-1", "region": "us-east-1", "size_gib": 150, "tags": {"dataset": "imagenet"}}],
}
IMAGES = {"us-east-1": "ami-1", "eu-west-1": "ami-2"}
SETTINGS = {"data_volume_run": "r1", "__data_volume_poll_seconds": 0.05, "__data_volume_settle_seconds": 2}


def ec2(region="us-east-1"):
    """A client of the double that the test has set up."""
    return client(os.environ["AWS_ENDPOINT_URL"], region=region)


def tag_list(tags):
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def launch(zone="us-east-1a", **tags):
    """A running instance of the run, and its root volume with the same tags: {id, region, zone}."""
    region = zone[:-1]
    given = tag_list(TAGS | tags)
    instance = ec2(region).run_instances(
        ImageId=IMAGES[region], InstanceType="t3.micro", MinCount=1, MaxCount=1,
        Placement={"AvailabilityZone": zone},
        TagSpecifications=[{"ResourceType": kind, "Tags": given} for kind in ("instance", "volume")],
    )["Instances"][0]  # fmt: skip
    ec2(region).describe_instances()
    return {"id": instance["InstanceId"], "region": region, "zone": zone}


def end(instance):
    ec2(instance["region"]).terminate_instances(InstanceIds=[instance["id"]])
    ec2(instance["region"]).describe_instances()


def volumes(region="us-east-1", **tags):
    """The volumes that carry the tags, by default those of the run that are no root volume."""
    wanted = tags or {"volume": "data"}
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in wanted.items()]
    return ec2(region).describe_volumes(Filters=filters)["Volumes"]


def snapshots(region="us-east-1"):
    return ec2(region).describe_snapshots(OwnerIds=["self"])["Snapshots"]


def play_command(folder, point, *options, hosts=("trainer-1",), **settings):
    """Plays one entry point of the role on the controller, and shows what it tells the host's part.

    hosts: their names, or their variables by name.
    """
    inventory, playbook = folder / "hosts.json", folder / f"{point}.json"
    named = hosts if isinstance(hosts, dict) else dict.fromkeys(hosts)
    inventory.write_text(json.dumps({"trainers": {"hosts": named}}))
    words = "volume {{ data_volume_id }} at {{ data_volume_device }} created blank {{ __data_volume_created_blank }}"
    tasks = [{"name": "Role", "ansible.builtin.import_role": {"name": "data_volume", "tasks_from": point}}]
    tasks += [{"name": "Show", "ansible.builtin.debug": {"msg": words}}] if point == "attach" else []
    play = {
        "hosts": "trainers", "connection": "local", "gather_facts": False, "tasks": tasks,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
    }  # fmt: skip
    playbook.write_text(json.dumps([play]))
    return [TOOLS / "ansible-playbook", playbook, "-i", inventory, "-e", json.dumps(SETTINGS | settings), *options]


def play_role(folder, point, *options, **settings):
    return subprocess.run(
        play_command(folder, point, *options, **settings), cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def recap(done):
    return done.stdout.split("PLAY RECAP")[1]
