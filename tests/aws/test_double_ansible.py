"""The real amazon.aws collection against the double: the modules that the roles rely on, and the inventory plugin."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from double_market import BASE, TAGS, launch

from tests.fakes.aws.clients import client
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running

HERE = Path(__file__).parent
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBWHo0n3fZ3GVKZJm2CzEUrHqzvNqGBXsQ0m6P3u1j4D kit"
IMAGE_PARAMETER = "/aws/service/debian/release/12/latest/amd64"
SCENARIO = Scenario.model_validate(
    BASE
    | {
        "images": [BASE["images"][0] | {"ssm_parameter": IMAGE_PARAMETER}],
        "snapshots": [{"id": "snap-own", "region": "us-east-1", "size_gib": 100}],
    }
)


@pytest.fixture(scope="module")
def endpoint():
    with running(SCENARIO) as url:
        yield url


def ansible(endpoint, command, *arguments):
    settings = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "double",
        "AWS_SECRET_ACCESS_KEY": "double",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
    }
    command = [Path(sys.executable).with_name(command), *arguments]
    options = {"cwd": HERE.parents[1], "env": os.environ | settings, "timeout": 300}
    ended = subprocess.run(command, capture_output=True, text=True, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow  # twice as many modules as a play of the kit
def test_modules_find_what_they_made(endpoint):
    variables = {
        "public_key": KEY,
        "image_parameter": IMAGE_PARAMETER,
        "instance_id": launch(client(endpoint))["InstanceId"],
        "ansible_python_interpreter": sys.executable,
    }
    play = (HERE / "double_playbook.yml", "-e", json.dumps(variables))
    assert "failed=0" in ansible(endpoint, "ansible-playbook", *play)
    assert "changed=0" in ansible(endpoint, "ansible-playbook", *play)


def test_inventory_names_running_instances(endpoint, tmp_path):
    launch(client(endpoint))
    inventory = tmp_path / "aws_ec2.yml"
    inventory.write_text(
        "plugin: amazon.aws.aws_ec2\n"
        "regions: [us-east-1]\n"
        "filters: {tag:run: r1, instance-state-name: [pending, running]}\n"
        "hostnames: [instance-id]\n"
        "compose: {ansible_host: public_ip_address}\n"
    )
    told = json.loads(ansible(endpoint, "ansible-inventory", "-i", str(inventory), "--list"))
    hosts = told["_meta"]["hostvars"].values()
    assert hosts and all("203.0.113." in str(host["ansible_host"]) for host in hosts)
    assert all(TAGS[0]["Value"] in str(host["tags"][TAGS[0]["Key"]]) for host in hosts)
