"""playbooks/retire.yml, status.yml and stop.yml on the controller's side: machines that the double only pretends."""

import json
import os
import re
import sys
import time

import boto3
import pytest
from run_logs import checkpoint, start, steps, write_run
from test_bill import KIT, OURS, client, control, instance, tags

from tests.rehearsal.playing import playbook
from tests.roles.playing import PROJECT

TYPE = "c6i.large"
OFFER = {"region": "us-west-2", "instance_types": [TYPE], "on_demand_usd_per_hour": 0.085, "spot_usd_per_hour": 0.02}
MARKET = {
    "regions": {"us-east-1": {}, "us-west-2": {}, "ap-east-1": {"opt_in": "not-opted-in"}},
    "offers": [OFFER, OFFER | {"region": "us-east-1"}],
}
SETTINGS = {
    "retire_timeout_seconds": 1, "status_timeout_seconds": 1, "ansible_timeout": 1, "checkpoint_mirror_enabled": False,
}  # fmt: skip


def ours(region="us-west-2", **more):
    return instance(region, **{"instance_type": TYPE, "launched": "-3h"} | more)


def play(name, folder, *options, **more):
    done = playbook(f"{name}.yml", SETTINGS | more, folder, *options)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def play_hosts(name, folder, hosts, **more):
    """One play for several trainers that are at home in us-west-2: {name: (failed, changed, what it was told)}.

    hosts: their variables by name.
    """
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"aws_region_us_west_2": {"hosts": hosts}}))
    done = playbook(f"{name}.yml", SETTINGS | more, folder, "-i", str(inventory), "--limit", ",".join(hosts))
    blocks = re.split(r"\n(?=\w+: \[|TASK |PLAY )", done.stdout)
    return {host: (*recap(done, host), " ".join(" ".join(words_of(blocks, host)).split())) for host in hosts}


def words_of(blocks, host):
    return [block for block in blocks if re.match(rf"\w+: \[{re.escape(host)}\]", block)]


def recap(done, host):
    line = re.search(rf"\n{re.escape(host)} +: (.*)", done.stdout)
    assert line, done.stdout + done.stderr
    facts = dict(word.split("=") for word in line[1].split())
    return int(facts["failed"]) + int(facts["unreachable"]), int(facts["changed"])


def retire(folder, *options, **more):
    return play("retire", folder, *options, **{"retire_confirmed": True, "retire_without_results": True} | more)


def alive(run="trainer-1"):
    """What the double knows of a run that costs money, by kind."""
    state = control(os.environ["AWS_ENDPOINT_URL"], "state")
    return sorted(row["kind"] for rows in state.values() for row in rows if row["tags"].get("run") == run)


def changed(words):
    return int(words.rpartition("changed=")[2].split()[0])


def attached(instance_id, region="us-west-2"):
    """A data volume of the run at an instance."""
    own = tags("volume", OURS | {"volume": "data"})
    ec2 = client(region)
    volume = ec2.create_volume(Size=150, AvailabilityZone=f"{region}a", TagSpecifications=own)["VolumeId"]
    ec2.attach_volume(VolumeId=volume, InstanceId=instance_id, Device="/dev/sdf")
    return volume


def first_instance(region="us-west-2"):
    return client(region).describe_instances()["Reservations"][0]["Instances"][0]["InstanceId"]


def test_it_deletes_everything_proves_it_and_shows_the_bill(aws, tmp_path):
    with aws(MARKET | {"instances": [ours(), ours(tags=KIT | {"run": "other"})]}):
        attached(first_instance())
        client().create_key_pair(KeyName="trainer-trainer-1", TagSpecifications=tags("key-pair"))
        client().create_key_pair(KeyName="theirs", TagSpecifications=tags("key-pair", {"run": "trainer-1"}))
        code, words = retire(tmp_path)
        assert code == 0, words
        assert (alive(), alive("other")) == ([], ["instance"])
        assert "Nothing of the kit with the tag run=trainer-1 is left in any region. key pair key-" in words
        client().delete_key_pair(KeyName="theirs")
        assert "the same hours on demand" in words
        assert changed(words) > 0
        code, words = retire(tmp_path)
        assert (code, changed(words)) == (0, 0), words
        assert "the same hours on demand" in words
        assert "Nothing with the tag run=trainer-1 is left in any region." in words, words


def test_check_mode_deletes_nothing(aws, tmp_path):
    with aws(MARKET | {"instances": [ours()]}):
        before = alive()
        code, words = play("retire", tmp_path, "--check")
        assert code == 0, words
        assert alive() == before
        assert not (tmp_path / "run").exists()


DATA_SET = ours("us-east-1", tags=KIT | {"run": "dataset-imagenet"}, market="on_demand")


@pytest.mark.parametrize(
    ("limit", "left"),
    [(("--limit", "dataset-imagenet"), []), pytest.param((), ["instance"], marks=pytest.mark.slow)],
)
def test_the_machine_of_a_data_set_goes_only_when_it_is_named(aws, tmp_path, limit, left):
    with aws(MARKET | {"instances": [ours(), DATA_SET]}):
        boto3.client("iam", region_name="us-east-1").create_instance_profile(
            InstanceProfileName="trainer-dataset-imagenet",
            Tags=tags("", KIT | {"run": "dataset-imagenet"})[0]["Tags"],
        )
        code, words = retire(tmp_path, *limit)
        assert code == 0, words
        assert alive("dataset-imagenet") == left
        assert alive() == ([] if left else ["instance"])


def test_a_region_that_does_not_answer_stops_it(aws, tmp_path):
    fault = {"region": "us-east-1", "action": "DescribeVolumes", "codes": ["InternalError"], "forever": True}
    with aws(MARKET | {"instances": [ours()], "faults": [fault]}):
        before = alive()
        code, words = retire(tmp_path)
        assert code == 2
        assert "us-east-1: InternalError" in words
        assert alive() == before


@pytest.mark.slow
def test_what_cannot_be_deleted_is_listed(aws, tmp_path):
    """A machine that somebody protects: the proof fails and names it."""
    with aws(MARKET | {"instances": [ours()]}):
        one = first_instance()
        client("us-west-2").allocate_address(Domain="vpc", TagSpecifications=tags("elastic-ip"))
        code, words = retire(tmp_path, bill_until_gone_seconds=0)
        assert code == 2
        assert "This is left of trainer-1: address eipalloc-" in words
        assert one not in words.split("This is left of")[1].split("Run the same command")[0]


FINISHED = {"finished": True, "steps": 600, "epochs": 90, "epochs_total": 90}
STOPPED = FINISHED | {"finished": False, "epochs": 1.5}
GONE = {"ended": "-1h"}
HERE = {"retire_without_results": False}
GIVES_UP = "-e retire_without_results=true gives them up"
# What each trainer has on AWS and on this side (report, epoch of the model), its settings, and why nothing is deleted.
REFUSED = {
    "unconfirmed": ([{}], None, None, {"retire_confirmed": False},
                    "Its bill so far: $0.06. It is done with -e retire_confirmed=true"),
    "several": ([{}, {"region": "us-east-1"}], None, None, {}, "-e retire_instances=2"),
    "nameless": ([{}], None, None, {"trainer_run_name": ""}, "bill_run must be made of letters"),
    "star": ([{}], None, None, {"trainer_run_name": "*"}, "bill_run must be made of letters"),
    "silent": ([{}], None, None, HERE, GIVES_UP),
    "not-fetched-since": ([{}], FINISHED, 90, HERE, GIVES_UP),
    "gone": ([GONE], None, None, HERE, "no second place has them"),
    "gone-with-a-report-of-nothing": ([GONE], {}, None, HERE, GIVES_UP),
    "gone-with-an-older-model": ([GONE], STOPPED, 1.2, HERE, GIVES_UP),
    "gone-finished-without-a-model": ([GONE], FINISHED, None, HERE, GIVES_UP),
    "gone-with-a-card-alone": ([GONE], FINISHED, 90, HERE, GIVES_UP),
}  # fmt: skip
RETIRED = {
    "gone-finished": ([GONE], FINISHED, 90, HERE, ""), "gone-stopped": ([GONE], STOPPED, 1.5, HERE, ""),
    "never-began": ([], None, None, HERE, ""),
    "two-as-said": ([{}, {"region": "us-east-1"}], None, None, {"retire_instances": 2}, ""),
}  # fmt: skip


def have(folder, report=None, model_epoch=None, run="trainer-1"):
    """The run's directory on this side, with what was fetched before."""
    here = folder / "run" / run
    here.mkdir(parents=True)
    for name, content in (("report", report), ("model", model_epoch and {"epoch": model_epoch})):
        if content is not None:
            (here / f"{name}.json").write_text(json.dumps(content))
    for name in ("model-0000.params", "model-symbol.json") if model_epoch else ():
        (here / name).touch()
    return here


@pytest.mark.parametrize("cases", [REFUSED, pytest.param(RETIRED, marks=pytest.mark.slow)], ids=["refused", "retired"])
def test_what_keeps_a_run_from_being_retired(aws, tmp_path, cases):
    """One play for all of them. Results must be here first; more than one instance must be named."""
    instances = [ours(**{"tags": KIT | {"run": name}} | row) for name, case in cases.items() for row in case[0]]
    nameless = [ours(tags={"kit": "image-trainer", "run": ""})]
    for name, case in cases.items():
        here = have(tmp_path, case[1], case[2], name)
        if name == "gone-with-a-card-alone":
            (here / "model-0000.params").unlink()
    common = {"retire_confirmed": True, "retire_without_results": True}
    with aws(MARKET | {"instances": instances + nameless}):
        before = {name: alive(name) for name in [*cases, ""]}
        told = play_hosts("retire", tmp_path, {name: common | case[3] for name, case in cases.items()})
        after = {name: alive(name) for name in [*cases, ""]}
    assert after == (before if cases is REFUSED else dict.fromkeys(cases, []) | {"": before[""]})
    for name, case in cases.items():
        failed, _, words = told[name]
        assert failed == (name in REFUSED) and case[4] in words, (name, words)


def test_an_older_state_in_the_second_place_does_not_end_a_machine_that_lives(aws, tmp_path):
    here = have(tmp_path, STOPPED, 1.5)
    (here / "LATEST").write_text("00000600-1\n")
    os.utime(here / "LATEST", (1, 1))
    with aws(MARKET | {"instances": [ours()]}):
        before = alive()
        put_mirror({"copies": [{"name": "00000600-1", "step": 600}]})
        code, words = play("retire", tmp_path, retire_confirmed=True, checkpoint_mirror_enabled=True)
        assert (code, alive()) == (2, before), words
        assert "What is in a second place may be older" in words


def put_mirror(latest):
    s3, bucket = boto3.client("s3", region_name="us-west-2"), "trainer-123456789012-us-west-2"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket=bucket, Key="runs/trainer-1/LATEST", Body=json.dumps(latest).encode())


def test_status_is_shown_whatever_cannot_be_known(aws, tmp_path):
    """A machine that does not answer, none, two of which none is picked, and a ledger that is damaged."""
    two = {"tags": KIT | {"run": "two"}}
    hosts = {"rented": {"trainer_run_name": "trainer-1"}, "none": {}, "two": {}, "damaged": {}}
    (tmp_path / "run/damaged").mkdir(parents=True)
    (tmp_path / "run/damaged/ledger.json").write_text("{")
    with aws(MARKET | {"instances": [ours(), ours(**two), ours("us-east-1", **two)]}):
        told = play_hosts("status", tmp_path, hosts)
        one = first_instance()
    for part in (f"where {one}, {TYPE} spot in us-west-2a, running", "3.0 hours", "host no answer:",
                 "this controller may not be let in: Check that this controller has the run's keys: Run trainer-1 has",
                 "cost $0.06 so far; the same hours on demand $0.26", "$0.02 an hour now"):  # fmt: skip
        assert part in told["rented"][2]
    assert "where nowhere: it has no instance" in told["none"][2]
    assert "where unknown: Check that there is one instance at most: Run two has 2 instances" in told["two"][2]
    assert "cost $0.12 so far" in told["two"][2]
    assert "cost unknown: Find what the run has rented, in every region: Failed to make the bill" in told["damaged"][2]
    assert told["none"][:2] == (0, 0)
    assert [told[name][0] for name in hosts] == [0, 0, 0, 0]


def test_stop_without_a_machine_says_so_and_powering_off_needs_a_second_place(aws, tmp_path):
    """A kept volume is none while the checkpoints are on the root volume."""
    hosts = {"none": {}, "kept": {"stop_power_off": True, "data_volume_keep": True}}
    with aws(MARKET):
        told = play_hosts("stop", tmp_path, hosts)
    assert told["none"][:2] == (0, 0) and "There is no machine." in told["none"][2]
    assert told["kept"][0] == 1 and "checkpoint_mirror_enabled or data_volume_keep" in told["kept"][2]


def know_address(cidr):
    """The run's firewall, as the launch left it."""
    ec2 = client("us-west-2")
    network = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    group = ec2.create_security_group(
        GroupName="image-trainer-trainer-1", Description="The trainer of run trainer-1", VpcId=network,
        TagSpecifications=tags("security-group"),
    )["GroupId"]  # fmt: skip
    ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": cidr, "Description": "ssh"}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[ssh])


def test_status_lets_this_controller_in_when_its_address_has_changed(aws, tmp_path):
    keys = tmp_path / "run/trainer-1/ssh"
    keys.mkdir(parents=True)
    for name in ("id_ed25519", "known_hosts"):
        (keys / name).touch()
    with aws(MARKET | {"instances": [ours()]}):
        know_address("192.0.2.7/32")
        for address, changes in (("192.0.2.9/32", True), ("192.0.2.9/32", False)):
            code, words = play("status", tmp_path, spot_instance_ssh_cidr=address)
            assert (code, changed(words) > 0) == (0, changes), words
            tagged = [{"Name": "tag:run", "Values": ["trainer-1"]}]
            [group] = client("us-west-2").describe_security_groups(Filters=tagged)["SecurityGroups"]
            assert [row["CidrIp"] for rule in group["IpPermissions"] for row in rule["IpRanges"]] == [address]


def run_on_this_machine(folder):
    """A run, and the settings with which the play takes this machine for its host."""
    here, now = folder / "run/trainer-1", time.time()
    (here / "ssh").mkdir(parents=True)
    for name in ("id_ed25519", "known_hosts"):
        (here / "ssh" / name).touch()
    events = [start(now - 300), *steps(now - 200, 10, 100), checkpoint(now - 100, 100)]
    write_run(folder / "host/trainer-1", events, [])
    return {
        "ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable,
        "trainer_service": False, "trainer_runs_directory": str(folder / "host"), "trainer_python": sys.executable,
        "trainer_code_directory": str(PROJECT), "spot_instance_ssh_cidr": "192.0.2.7/32",
    }  # fmt: skip


@pytest.mark.slow
def test_status_tells_how_a_run_stands_whatever_becomes_of_its_results(aws, tmp_path):
    own = run_on_this_machine(tmp_path)
    (tmp_path / "run/trainer-1/report.json").mkdir()  # where no file can be put
    with aws(MARKET | {"instances": [ours()]}):
        code, words = play("status", tmp_path, **own)
        assert code == 0, words
        for part in ("step 100 of 200", "results not all brought here: Bring it here", "cost $0.06 so far"):
            assert part in words
        # The inventory has a second place, the run was begun without. Only a look: the machine is this one.
        more = own | {"checkpoint_mirror_enabled": True, "stop_power_off": True}
        code, words = play("stop", tmp_path, "--check", **more)
    assert code == 2
    assert "The second place has step none, the machine step 100" in words
