"""Role data_volume's part at AWS as playbooks use it."""

import os
import signal
import subprocess
import time

import pytest
from volume_plays import MARKET, ec2, end, launch, play_command, play_role, recap, snapshots, volumes

from tests.roles.playing import environment


def words(done):
    return " ".join(done.stdout.split())


@pytest.mark.slow
def test_from_another_region_s_snapshot_to_a_volume_and_after_a_loss_to_another(aws, play_in):
    with aws(MARKET):
        first = launch("eu-west-1a")
        predicted = play_in("attach", "--check", data_volume_instance=first)
        assert predicted.returncode == 0, predicted.stdout
        assert "would copy snap-1 (150 GiB) from us-east-1 to eu-west-1" in words(predicted)
        assert f"would make a volume from snap-1, in eu-west-1a and attach it to {first['id']}" in words(predicted)
        assert "changed=2" in recap(predicted) and "volume vol-" not in predicted.stdout
        assert snapshots("eu-west-1") == [] and volumes("eu-west-1") == []

        done = play_in("attach", data_volume_instance=first)
        [volume] = volumes("eu-west-1")
        assert f"volume {volume['VolumeId']} at /dev/sdf created blank False" in words(done), done.stdout
        assert "changed=3" in recap(done)
        for options in ([], ["--check"]):
            again = play_in("attach", *options, data_volume_instance=first)
            assert "changed=0" in recap(again), again.stdout

        ec2("eu-west-1").modify_instance_attribute(
            InstanceId=first["id"],
            BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"DeleteOnTermination": False}}],
        )
        end(first)
        second = launch("eu-west-1b")
        moved = play_in("attach", data_volume_instance=second)
        assert moved.returncode == 0, moved.stdout
        [volume] = volumes("eu-west-1")
        assert (volume["AvailabilityZone"], volume["Attachments"][0]["InstanceId"]) == ("eu-west-1b", second["id"])
        assert len(snapshots("eu-west-1")) == 1

        end(second)
        assert play_in("retire").returncode == 0
        assert volumes("eu-west-1") == []


@pytest.fixture
def play_in(tmp_path):
    return lambda point, *options, **settings: play_role(tmp_path, point, *options, **settings)


def test_a_blank_volume_may_be_formatted_by_the_run_that_made_it_and_by_no_other(aws, play_in):
    blank = {"data_volume_snapshot_tags": {}, "data_volume_size_gb": 20, "data_volume_throughput_mib_per_second": 1000}
    with aws(MARKET):
        instance = launch()
        for _ in range(2):
            assert "created blank True" in words(play_in("attach", data_volume_instance=instance, **blank))
        [volume] = volumes()
        ec2().delete_tags(Resources=[volume["VolumeId"]], Tags=[{"Key": "blank"}])
        assert "created blank False" in words(play_in("attach", data_volume_instance=instance, **blank))


def test_another_data_set_is_refused_while_the_run_lives_and_a_copy_of_the_same_one_is_not(aws, play_in):
    other = {"id": "snap-2", "region": "us-east-1", "size_gib": 2}
    with aws(MARKET | {"snapshots": [*MARKET["snapshots"], other]}):
        instance = launch("eu-west-1a")
        assert play_in("attach", data_volume_instance=instance).returncode == 0
        [copy], [volume] = snapshots("eu-west-1"), volumes("eu-west-1")
        ec2("eu-west-1").delete_snapshot(SnapshotId=copy["SnapshotId"])
        again = play_in("attach", "--check", data_volume_instance=instance)
        assert again.returncode == 0, again.stdout
        told = play_in("attach", "--check", data_volume_instance=instance, data_volume_snapshot_id="snap-2")
    assert told.returncode == 2
    assert f"{volume['VolumeId']} at {instance['id']} was made from snap-1, and snap-2 is asked for" in words(told)


@pytest.mark.slow
def test_two_trainers_start_one_copy(aws, play_in):
    with aws(MARKET):
        settings = {
            "data_volume_run": "{{ inventory_hostname }}", "hosts": ["a", "b"],
            "data_volume_instance": "{{ {'a': first, 'b': second}[inventory_hostname] }}",
            "first": launch("eu-west-1a"), "second": launch("eu-west-1b"),
        }  # fmt: skip
        done = play_in("attach", **settings)
        assert done.returncode == 0, done.stdout
        assert len(snapshots("eu-west-1")) == 1
        assert {volume["AvailabilityZone"] for volume in volumes("eu-west-1")} == {"eu-west-1a", "eu-west-1b"}


BAD = [
    (
        {"own_run": "", "data_volume_instance": {"id": "i-1", "zone": ""}},
        '"_" and "-", got ""; data_volume_instance must have id, region and zone (missing: region, zone)',
    ),
    ({"data_volume_snapshot_tags": {}}, "or data_volume_size_gb be above 0 for a blank volume"),
    ({"data_volume_initialization_rate_mib_per_second": 50}, "0 or 100 to 300, got 50"),
    ({"data_volume_size_gb": 149}, "must be 0 or at least the snapshot's 150 GiB, got 149"),
    (
        {"data_volume_throughput_mib_per_second": 2000, "data_volume_snapshot_tags": {}, "data_volume_size_gb": 15},
        "must be at least 16 for data_volume_throughput_mib_per_second 2000, got 15",
    ),
    (
        {"data_volume_throughput_mib_per_second": 751, "data_volume_snapshot_id": "snap-2"},
        "data_volume_throughput_mib_per_second 751 needs a volume of at least 7 GiB, got 2",
    ),
]


def test_bad_settings_are_an_error_in_words_before_anything_is_made(aws, calls, play_in):
    """One play, and each of its hosts has a setting of its own."""
    good = {"own_run": "r1", "data_volume_instance": {"id": "i-00000000", "region": "us-east-1", "zone": "us-east-1a"}}
    hosts = {f"trainer-{number}": good | settings for number, (settings, _) in enumerate(BAD)}
    small = {"id": "snap-2", "region": "us-east-1", "size_gib": 2}
    with aws(MARKET | {"snapshots": [*MARKET["snapshots"], small]}):
        snapshots()
        done = play_in("attach", hosts=hosts, data_volume_run="{{ own_run }}")
    assert done.returncode == 2
    for number, (_, message) in enumerate(BAD):
        told = words(done).split(f"fatal: [trainer-{number}]: ")[1].split("fatal: ")[0]
        assert message in told, done.stdout + done.stderr
    assert {call["action"] for call in calls()} <= {"DescribeSnapshots"}


def test_nothing_is_deleted_without_a_run_s_name_and_retiring_fails_where_nobody_could_look(aws, calls, play_in):
    fault = {"region": "eu-west-1", "action": "DescribeVolumes", "codes": ["OperationNotPermitted"], "forever": True}
    hosts = {"nameless": {"own_run": ""}, "named": {"own_run": "r1"}}
    with aws(MARKET | {"faults": [fault]}):
        done = play_in("retire", hosts=hosts, data_volume_run="{{ own_run }}")
    assert done.returncode == 2
    told = {name: words(done).split(f"fatal: [{name}]: ")[1].split("fatal: ")[0] for name in hosts}
    assert "nothing is deleted without a run" in told["nameless"]
    assert "may be left where AWS did not answer: eu-west-1: OperationNotPermitted" in told["named"]
    assert all(call["action"].startswith("Describe") for call in calls())


def test_what_takes_too_long_shows_its_progress_and_ends_with_the_reason(aws, play_in):
    with aws(MARKET | {"timing": [{"copying": "forever"}]}):
        instance = launch("eu-west-1a")
        done = play_in("attach", data_volume_instance=instance, data_volume_copy_timeout_seconds=1)
        [copy] = snapshots("eu-west-1")
    waiting = f"waiting for snapshot {copy['SnapshotId']}, a copy of snap-1, to be complete: 0% after 0 min"
    assert done.returncode == 2
    assert f"  trainer-1: {waiting}\n" in done.stdout
    assert f"Failed to get the data set's snapshot into eu-west-1: waited 1 s; {waiting}" in words(done)


@pytest.mark.slow
@pytest.mark.parametrize("action", ["CopySnapshot", "CreateVolume", "AttachVolume"])
def test_a_controller_that_is_killed_leaves_nothing_that_the_next_run_does_not_find(
    aws, calls, play_in, tmp_path, action
):
    with aws(MARKET | {"faults": [{"action": action, "codes": ["held"]}]}):
        instance = launch("eu-west-1a")
        command = play_command(tmp_path, "attach", data_volume_instance=instance)
        killed = subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while action not in {call["action"] for call in calls()} and time.monotonic() < deadline:
            time.sleep(0.1)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        done = play_in("attach", data_volume_instance=instance)
        assert done.returncode == 0, done.stdout
        assert (len(snapshots("eu-west-1")), len(volumes("eu-west-1"))) == (1, 1)
        end(instance)
        assert play_in("retire").returncode == 0
        assert volumes("eu-west-1") == []


@pytest.mark.slow
def test_a_kept_volume_follows_its_run_into_another_region_and_outlives_it(aws, play_in):
    kept = {"data_volume_keep": True, "data_volume_snapshot_tags": {}, "data_volume_size_gb": 5}
    with aws(MARKET):
        first = launch("us-east-1a")
        assert play_in("attach", data_volume_instance=first, **kept).returncode == 0
        end(first)
        second = launch("eu-west-1b")
        done = play_in("attach", data_volume_instance=second, **kept)
        assert done.returncode == 0, done.stdout
        assert volumes("us-east-1", volume="checkpoints") == []
        [volume] = volumes("eu-west-1", volume="checkpoints")
        assert volume["SnapshotId"] and not volume["Attachments"][0]["DeleteOnTermination"]
        assert [row["SnapshotId"] for row in snapshots()] == ["snap-1"] and snapshots("eu-west-1") == []
        assert "changed=0" in recap(play_in("attach", data_volume_instance=second, **kept))

        end(second)
        retired = play_in("retire", data_volume_keep=True)
        assert retired.returncode == 0, retired.stdout
        [snapshot] = snapshots("eu-west-1")
        assert f"the kept volume is snapshot {snapshot['SnapshotId']}" in words(retired)
        tags = {tag["Key"]: tag["Value"] for tag in snapshot["Tags"]}
        assert (tags["kept_from"], "run" in tags) == ("r1", False)
        assert volumes("eu-west-1", volume="checkpoints") == []
        assert "changed=0" in recap(play_in("retire", data_volume_keep=True))
