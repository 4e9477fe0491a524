"""A controller killed in the middle of any change at AWS: the next run finds what there is, retiring leaves nothing.

The call is carried out and its answer never comes, which is the worst moment. The instances are the double's own:
nobody logs in.
"""

import json
import subprocess
import time

import psutil
import pytest

from tests.fakes.aws.clients import client
from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.fakes.aws.world import world
from tests.rehearsal import playing
from tests.rehearsal.market import CHEAP, HOME, scenario, settings

READS = ("Describe", "Get", "List", "Head")
RENT = ("train.yml", "--skip-tags", "host")
RETIRE = ("retire.yml", "-e", "retire_confirmed=true", "-e", "retire_without_results=true")
QUICK = {"retire_timeout_seconds": 1, "ansible_timeout": 1}
# Every call of a first run that changes something, in its order.
CHANGES = [
    "s3:CreateBucket", "s3:PutPublicAccessBlock", "s3:PutBucketTagging", "s3:PutBucketEncryption",
    "s3:PutBucketOwnershipControls", "s3:PutBucketLifecycleConfiguration", "iam:CreateRole",
    "iam:CreateInstanceProfile", "iam:AddRoleToInstanceProfile", "iam:PutRolePolicy", "iam:TagInstanceProfile",
    "ec2:CopySnapshot", "ec2:ImportKeyPair", "ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress",
    "ec2:RunInstances", "ec2:CreateVolume", "ec2:AttachVolume", "ec2:ModifyInstanceAttribute",
]  # fmt: skip
IN_EVERY_TEST_RUN = ("iam:AddRoleToInstanceProfile", "ec2:RunInstances", "ec2:CreateVolume")


@pytest.fixture
def aws(tmp_path):
    """`with aws(action)`: a double whose first answer to that action never comes."""

    def aws(*actions):
        faults = [{"action": action, "codes": ["held"]} for action in actions]
        # Loopback: a connection to an instance is refused at once.
        own = scenario(timing=[], addresses=["127.0.0.9"], faults=faults)
        return running(Scenario.model_validate(own), tmp_path / "calls.jsonl")

    return aws


def play(endpoint, folder, name, *options):
    credentials = playing.credentials(endpoint)
    done = playing.playbook(name, settings(**QUICK), folder, *options, **credentials)
    assert done.returncode == 0, done.stdout + done.stderr


def kill_when_held(endpoint, folder):
    """Plays until the double holds an answer back; then no process of the controller gets to do anything."""
    command = playing.command(RENT[0], settings(**QUICK), folder, *RENT[1:])
    streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with open(folder / "killed.log", "w") as log:
        environment = playing.environment(**playing.credentials(endpoint))
        controller = psutil.Popen(command, cwd=folder, env=environment, stdout=log, **streams)
    while not any(call["fault"] == "held" for call in world().calls):
        assert controller.poll() is None, (folder / "killed.log").read_text()
        time.sleep(0.05)
    for process in [controller, *controller.children(recursive=True)]:
        process.kill()
    controller.wait()


def changes(calls):
    names = [f"{call['service']}:{call['action']}" for call in calls if not call["action"].startswith(READS)]
    return list(dict.fromkeys(names))


def left(endpoint):
    """What still carries the run's tag or name, in all services that the kit uses."""
    found = [row["id"] for rows in playing.control(endpoint, "state").values() for row in rows if "run" in row["tags"]]
    mine = [{"Name": "tag:run", "Values": ["trainer-1"]}]
    for region in (HOME, CHEAP):
        ec2 = client(endpoint, region=region)
        found += [row["KeyName"] for row in ec2.describe_key_pairs(Filters=mine)["KeyPairs"]]
        found += [row["GroupId"] for row in ec2.describe_security_groups(Filters=mine)["SecurityGroups"]]
        found += [row["VpcId"] for row in ec2.describe_vpcs(Filters=mine)["Vpcs"]]
    iam = client(endpoint, "iam")
    found += [row["RoleName"] for row in iam.list_roles()["Roles"] if row["RoleName"].startswith("trainer-")]
    return found + [row["InstanceProfileName"] for row in iam.list_instance_profiles()["InstanceProfiles"]]


@pytest.mark.parametrize(
    "action", [name if name in IN_EVERY_TEST_RUN else pytest.param(name, marks=pytest.mark.slow) for name in CHANGES]
)
def test_the_next_run_finds_what_a_killed_one_made_and_nothing_is_left_in_the_end(aws, tmp_path, action):
    with aws(action) as endpoint:
        kill_when_held(endpoint, tmp_path)
        play(endpoint, tmp_path, *RENT)
        [instance] = [row for row in playing.control(endpoint, "bill") if row["kind"] == "instance"]
        assert not instance["ended"]
        [data] = [
            row["VolumeId"] for row in client(endpoint, region=CHEAP).describe_volumes(
                Filters=[{"Name": "tag:volume", "Values": ["data"]}]
            )["Volumes"] if row["Attachments"][0]["InstanceId"] == instance["id"]
        ]  # fmt: skip
        assert data
        assert len(playing.control(endpoint, "bill")) == 4  # the instance, its two volumes, one copy of the snapshot
        play(endpoint, tmp_path, *RETIRE)
        assert left(endpoint) == []
        assert all(row["ended"] for row in playing.control(endpoint, "bill") if row["kind"] != "snapshot")


@pytest.mark.slow
def test_the_list_of_changes_is_whole(aws, tmp_path):
    with aws() as endpoint:
        play(endpoint, tmp_path, *RENT)
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert changes(calls) == CHANGES
    # The region that was not needed has not been touched.
    assert not changes([call for call in calls if call["region"] == HOME])
