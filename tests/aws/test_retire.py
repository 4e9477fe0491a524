"""playbooks/retire.yml, status.yml and stop.yml on the controller's side: machines that the double only pretends."""

import json
import os

import boto3
import pytest
from test_bill import KIT, OURS, client, control, instance, tags

from tests.rehearsal.playing import playbook

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


def test_unconfirmed_it_says_what_it_would_delete_and_does_not(aws, tmp_path):
    with aws(MARKET | {"instances": [ours()]}):
        volume, before = attached(first_instance()), alive()
        code, words = play("retire", tmp_path)
        assert alive() == before
        assert code == 2
        for part in (f"instance {first_instance()} in us-west-2a, running", f"volume {volume} in us-west-2a", "$0.06",
                     "-e retire_confirmed=true"):  # fmt: skip
            assert part in words


def test_it_deletes_everything_proves_it_and_shows_the_bill(aws, tmp_path):
    with aws(MARKET | {"instances": [ours(), ours(tags=KIT | {"run": "other"})]}):
        attached(first_instance())
        client().create_key_pair(KeyName="trainer-trainer-1", TagSpecifications=tags("key-pair"))
        code, words = retire(tmp_path)
        assert code == 0, words
        assert (alive(), alive("other")) == ([], ["instance"])
        assert "Nothing with the tag run=trainer-1 is left in any region." in words
        assert "the same hours on demand" in words
        assert changed(words) > 0
        code, words = retire(tmp_path)
        assert (code, changed(words)) == (0, 0), words
        assert "the same hours on demand" in words


def test_check_mode_deletes_nothing(aws, tmp_path):
    with aws(MARKET | {"instances": [ours()]}):
        before = alive()
        code, words = play("retire", tmp_path, "--check")
        assert code == 0, words
        assert alive() == before
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("more", "ends"), [({}, 2), pytest.param({"retire_instances": 2}, 0, marks=pytest.mark.slow)])
def test_more_than_one_instance_must_be_named(aws, tmp_path, more, ends):
    with aws(MARKET | {"instances": [ours(), ours("us-east-1")]}):
        code, words = retire(tmp_path, **more)
        assert code == ends, words
        assert (alive() == []) == (ends == 0)
        if ends:
            assert "-e retire_instances=2" in words


@pytest.mark.parametrize("name", ["", pytest.param("*", marks=pytest.mark.slow)])
def test_without_a_name_nothing_is_deleted(aws, tmp_path, name):
    with aws(MARKET | {"instances": [ours(), ours(tags={"kit": "image-trainer", "run": ""})]}):
        before = alive()
        code, words = retire(tmp_path, trainer_run_name=name)
        assert code == 2
        assert "bill_run must be made of letters" in words
        assert alive() == before


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


def have(folder, report=None, model_epoch=None):
    """The run's directory on this side, with what was fetched before."""
    here = folder / "run/trainer-1"
    here.mkdir(parents=True)
    for name, content in (("report", report), ("model", model_epoch and {"epoch": model_epoch})):
        if content is not None:
            (here / f"{name}.json").write_text(json.dumps(content))
    return here


@pytest.mark.parametrize(
    ("machine", "report", "model_epoch", "ends"),
    [
        pytest.param({}, None, None, 2, id="it does not answer"),
        pytest.param(GONE, STOPPED, 1.2, 2, id="gone, an older model"),
        *(
            pytest.param(*row, id=name, marks=pytest.mark.slow) for name, row in {
                "gone": (GONE, None, None, 2),
                "gone, a report of nothing": (GONE, {}, None, 2),
                "gone, finished, without a model": (GONE, FINISHED, None, 2),
                "gone, finished": (GONE, FINISHED, 90, 0),
                "gone, stopped": (GONE, STOPPED, 1.5, 0),
                "not fetched since": ({}, FINISHED, 90, 2),
                "never began": (None, None, None, 0),
            }.items()
        ),
    ],
)  # fmt: skip
def test_results_must_be_here_first(aws, tmp_path, machine, report, model_epoch, ends):
    have(tmp_path, report, model_epoch)
    with aws(MARKET | {"instances": [] if machine is None else [ours(**machine)]}):
        before = alive()
        code, words = play("retire", tmp_path, retire_confirmed=True)
        assert code == ends, words
        assert ends == 0 or (alive() == before and "-e retire_without_results=true gives them up" in words)


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


def test_status_of_a_machine_that_does_not_answer_and_of_none(aws, tmp_path):
    with aws(MARKET | {"instances": [ours()]}):
        code, words = play("status", tmp_path)
        assert code == 0, words
        for part in (f"where {first_instance()}, {TYPE} spot in us-west-2a, running", "3.0 hours", "host no answer:",
                     "cost $0.06 so far; the same hours on demand $0.26", "$0.02 an hour now"):  # fmt: skip
            assert part in words
    with aws(MARKET):
        code, words = play("status", tmp_path)
        assert code == 0
        assert "where nowhere: it has no instance" in words
        assert "cost $0.06 so far" in words
        assert (code, changed(words)) == (0, 0)


def test_stop_without_a_machine_says_so(aws, tmp_path):
    with aws(MARKET):
        code, words = play("stop", tmp_path)
    assert (code, changed(words)) == (0, 0), words
    assert "There is no machine." in words


def test_powering_off_needs_a_second_place(aws, tmp_path):
    with aws(MARKET):
        code, words = play("stop", tmp_path, stop_power_off=True)
    assert code == 2
    assert "checkpoint_mirror_enabled or data_volume_keep" in words


def test_status_lets_this_controller_in_when_its_address_has_changed(aws, tmp_path):
    keys = tmp_path / "run/trainer-1/ssh"
    keys.mkdir(parents=True)
    for name in ("id_ed25519", "known_hosts"):
        (keys / name).touch()
    with aws(MARKET | {"instances": [ours()]}):
        for address, changes in (("192.0.2.7/32", True), ("192.0.2.9/32", True), ("192.0.2.9/32", False)):
            code, words = play("status", tmp_path, spot_instance_ssh_cidr=address)
            assert (code, changed(words) > 0) == (0, changes), words
            tagged = [{"Name": "tag:run", "Values": ["trainer-1"]}]
            [group] = client("us-west-2").describe_security_groups(Filters=tagged)["SecurityGroups"]
            assert [row["CidrIp"] for rule in group["IpPermissions"] for row in rule["IpRanges"]] == [address]
