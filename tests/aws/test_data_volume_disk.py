"""The run's volume: made where the instance is, attached to one instance, deleted when it is of no use."""

import time

import pytest
from volume_plays import MARKET, TAGS, ec2, end, launch, snapshots, tag_list, volumes
from volume_steps import drive, load, look

run_volume = load("run_volume")
volume_attachment = load("volume_attachment")
run_storage_absent = load("run_storage_absent")
volume_saved = load("volume_saved")
DATA = TAGS | {"volume": "data"}


def wanted(instance, **changes):
    return {
        "region": instance["region"], "zone": instance["zone"], "instance_id": instance["id"], "tags": DATA,
        "name": "trainer-1", "snapshot_id": "snap-1", "throughput_mib_per_second": 125,
    } | changes  # fmt: skip


def attached(instance, volume_id, **changes):
    return {
        "region": instance["region"], "volume_id": volume_id, "instance_id": instance["id"],
        "delete_on_termination": True,
    } | changes  # fmt: skip


def attach(capsys, instance, **changes):
    """A new volume at the instance; its id."""
    volume = drive(run_volume, capsys, wanted(instance))["volume_id"]
    drive(volume_attachment, capsys, attached(instance, volume, **changes))
    return volume


# -- Made


def test_it_is_made_once_in_the_instance_s_zone_with_its_tags(aws, calls, capsys):
    with aws(MARKET):
        instance = launch("us-east-1b")
        made = drive(run_volume, capsys, wanted(instance, initialization_rate_mib_per_second=200))
        again = drive(run_volume, capsys, wanted(instance))
        [volume] = volumes()
        [call] = [call for call in calls() if call["action"] == "CreateVolume"]
    assert (made["changed"], again["changed"]) == (True, False)
    assert made["volume_id"] == again["volume_id"] == volume["VolumeId"]
    assert made["volume"] == {"snapshot_id": "snap-1", "size_gb": 150, "created_blank": False}
    assert (volume["AvailabilityZone"], volume["SnapshotId"], volume["VolumeType"]) == ("us-east-1b", "snap-1", "gp3")
    assert {tag["Key"]: tag["Value"] for tag in volume["Tags"]} == DATA | {"Name": "trainer-1"}
    assert call["parameters"]["VolumeInitializationRate"] == "200"


def test_a_blank_one_is_encrypted_and_has_the_size_asked_for(aws, capsys):
    with aws(MARKET):
        made = drive(run_volume, capsys, wanted(launch(), snapshot_id="", size_gb=20))
        [volume] = volumes()
    assert (volume["Size"], volume["Encrypted"], made["volume"]["snapshot_id"]) == (20, True, "")


def test_that_it_was_made_blank_is_still_known_after_the_controller_was_killed(aws, calls, capsys):
    with aws(MARKET):
        instance = launch()
        blank = wanted(instance, snapshot_id="", size_gb=20)
        assert look(run_volume, capsys, blank)["changed"]
        found = drive(run_volume, capsys, blank)
        [call] = [call for call in calls() if call["action"] == "CreateVolume"]
    assert (found["changed"], found["volume"]["created_blank"]) == (False, True)
    assert "blank" in call["parameters"].values(), "the tag is set by the call that makes it"


@pytest.mark.parametrize(
    ("tags", "options"),
    [({}, {"Size": 5}), ({"blank": "r2"}, {"Size": 5}), ({"blank": "r1"}, {"SnapshotId": "snap-1"})],
    ids=["no tag", "another run's", "from a snapshot"],
)
def test_no_other_volume_counts_as_made_blank_for_the_run(aws, capsys, tags, options):
    with aws(MARKET):
        ec2().create_volume(
            AvailabilityZone="us-east-1a", **options,
            TagSpecifications=[{"ResourceType": "volume", "Tags": tag_list(DATA | tags)}],
        )  # fmt: skip
        found = drive(run_volume, capsys, wanted(launch("us-east-1a"), snapshot_id="", size_gb=5))
    assert (found["changed"], found["volume"]["created_blank"]) == (False, False)


@pytest.mark.parametrize(("throughput", "iops"), [(125, 3000), (750, 3000), (2000, 8000)])
def test_a_fast_one_gets_the_operations_that_its_speed_needs(aws, calls, capsys, throughput, iops):
    with aws(MARKET):
        made = drive(run_volume, capsys, wanted(launch(), throughput_mib_per_second=throughput, iops=iops))
        [call] = [call for call in calls() if call["action"] == "CreateVolume"]
    assert made["changed"], made
    assert (call["parameters"]["Throughput"], call["parameters"]["Iops"]) == (str(throughput), str(iops))


@pytest.mark.parametrize("word", ["lost", "refused", "RequestLimitExceeded"])
def test_an_answer_that_is_lost_makes_no_second_one(aws, capsys, word):
    with aws(MARKET | {"faults": [{"action": "CreateVolume", "codes": [word]}]}):
        drive(run_volume, capsys, wanted(launch()))
        assert len(volumes()) == 1


def test_a_run_that_ended_before_the_tags_were_seen_finds_its_volume_again(aws, capsys):
    with aws(MARKET | {"timing": [{"tags": 1}]}):
        instance = launch()
        look(run_volume, capsys, wanted(instance))
        drive(run_volume, capsys, wanted(instance))
        time.sleep(1)
        assert len(volumes()) == 1


def test_one_that_was_deleted_by_hand_is_made_again(aws, capsys, monkeypatch):
    with aws(MARKET):
        instance = launch()
        first = drive(run_volume, capsys, wanted(instance))["volume_id"]
        ec2().delete_volume(VolumeId=first)
        monkeypatch.setattr(run_volume, "SEEN_SECONDS", 1)
        time.sleep(1.1)
        assert drive(run_volume, capsys, wanted(instance))["volume_id"] not in ("", first)


def test_one_that_ends_in_an_error_is_told_and_the_next_run_makes_another(aws, capsys):
    with aws(MARKET | {"timing": [{"volume": 0.2, "volume_ends": "error"}]}):
        instance = launch()
        failed = drive(run_volume, capsys, wanted(instance))
        assert "us-east-1a, error" in failed["msg"]
        again = drive(run_volume, capsys, wanted(instance))
        assert "us-east-1a, error" in again["msg"]
        assert len(volumes()) == 2


def test_one_that_stays_in_creating_is_waited_for(aws, capsys):
    with aws(MARKET | {"timing": [{"volume": "forever"}]}):
        told = drive(run_volume, capsys, wanted(launch()), seconds=3)
    assert told["waiting_for"] == f"waiting for {told['volume_id']} to be made"


def test_two_in_the_zone_are_an_error_that_names_both(aws, capsys):
    two = [{"region": "us-east-1", "zone": "us-east-1a", "size_gib": 150, "tags": DATA}] * 2
    with aws(MARKET | {"volumes": two}):
        told = drive(run_volume, capsys, wanted(launch()))
        assert all(volume["VolumeId"] in told["msg"] for volume in volumes())
        assert "must be one, got" in told["msg"]


def test_one_in_another_zone_or_of_another_run_and_root_volumes_are_not_taken(aws, capsys):
    others = [
        {"region": "us-east-1", "zone": "us-east-1b", "size_gib": 150, "tags": DATA},
        {"region": "us-east-1", "zone": "us-east-1a", "size_gib": 150, "tags": DATA | {"run": "r2"}},
    ]
    with aws(MARKET | {"volumes": others}):
        instance = launch()
        made = drive(run_volume, capsys, wanted(instance))
        assert made["changed"] and len(volumes()) == 3


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_volume_is_never_taken_from_an_instance_that_lives(aws, capsys, state):
    with aws(MARKET):
        older, newer = launch(), launch()
        volume = attach(capsys, older)
        if state == "stopped":
            ec2().stop_instances(InstanceIds=[older["id"]])
            ec2().describe_instances()
        for module, arguments in ((run_volume, wanted(newer)), (volume_attachment, attached(newer, volume))):
            told = drive(module, capsys, arguments)
            assert f"{volume} is attached at {older['id']}, which is {state}" in told["msg"]
        [row] = volumes()
        assert row["Attachments"][0]["InstanceId"] == older["id"]


def other_data(capsys, instance):
    """A volume of the run with another data set; its id."""
    return drive(run_volume, capsys, wanted(instance, data_from="snap-other"))["volume_id"]


@pytest.mark.parametrize("check", [False, True])
def test_a_run_that_lives_gets_no_other_data_set_and_is_told_why(aws, calls, capsys, check):
    with aws(MARKET):
        instance = launch()
        volume = other_data(capsys, instance)
        drive(volume_attachment, capsys, attached(instance, volume))
        told = drive(run_volume, capsys, wanted(instance, data_from="snap-1"), check=check)
        assert drive(run_volume, capsys, wanted(instance, data_from="snap-other"))["volume_id"] == volume
    assert f"{volume} at {instance['id']} was made from snap-other, and snap-1 is asked for" in told["msg"]
    assert "retire it first" in told["msg"]
    assert len([call for call in calls() if call["action"] == "CreateVolume"]) == 1


def test_a_free_volume_with_another_data_set_is_left_over_and_deleted(aws, capsys):
    with aws(MARKET):
        instance = launch()
        left = other_data(capsys, instance)
        made = drive(run_volume, capsys, wanted(instance, data_from="snap-1"))
        again = drive(run_volume, capsys, wanted(instance, data_from="snap-1"))
        gone = drive(run_storage_absent, capsys, absent(keep_ids=[made["volume_id"]]))
        assert [volume["VolumeId"] for volume in volumes()] == [made["volume_id"]]
    assert (made["changed"], again["changed"], again["volume_id"]) == (True, False, made["volume_id"])
    assert [row["id"] for row in gone["deleted"]] == [left]


def test_what_a_dying_instance_holds_is_waited_for(aws, capsys):
    with aws(MARKET | {"timing": [{"shutting_down": 4}]}):
        older, newer = launch(), launch()
        first = attach(capsys, older)
        end(older)
        told = drive(run_volume, capsys, wanted(newer))
        assert f"for {older['id']} to let go: {first} is attached at {older['id']}, which is" in told["waits"][0]
        assert told["changed"] and told["volume_id"] != first


def test_what_a_dead_instance_never_lets_go_ends_in_words(aws, capsys):
    with aws(MARKET | {"timing": [{"shutting_down": "forever"}]}):
        older, newer = launch(), launch()
        attach(capsys, older)
        end(older)
        told = drive(run_volume, capsys, wanted(newer), seconds=3)
        assert "which is shutting-down" in told["waiting_for"]
        assert len(volumes()) == 1


def test_check_mode_makes_nothing_and_says_what_it_would(aws, calls, capsys):
    with aws(MARKET):
        told = drive(run_volume, capsys, wanted(launch()), check=True)
    assert (told["changed"], told["would"]) == (True, "would make a volume from snap-1, in us-east-1a")
    assert "CreateVolume" not in {call["action"] for call in calls()}


# -- Attached


def test_it_is_attached_once_and_ends_with_its_instance(aws, calls, capsys):
    with aws(MARKET):
        instance = launch()
        volume = drive(run_volume, capsys, wanted(instance))["volume_id"]
        first = drive(volume_attachment, capsys, attached(instance, volume))
        again = drive(volume_attachment, capsys, attached(instance, volume, device="/dev/sdf"))
        assert (first["device"], first["changed"], again["changed"]) == ("/dev/sdf", True, False)
        assert volumes()[0]["Attachments"][0]["DeleteOnTermination"] is True
        end(instance)
        assert volumes() == []
    assert [call["action"] for call in calls()].count("AttachVolume") == 1


def test_a_kept_one_outlives_its_instance(aws, capsys):
    with aws(MARKET):
        instance = launch()
        attach(capsys, instance, delete_on_termination=False)
        end(instance)
        assert [volume["State"] for volume in volumes()] == ["available"]


def test_the_device_is_the_first_free_one_or_the_one_asked_for(aws, capsys):
    with aws(MARKET):
        instance = launch()
        other = ec2().create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"]
        ec2().attach_volume(VolumeId=other, InstanceId=instance["id"], Device="/dev/sdf")
        volume = drive(run_volume, capsys, wanted(instance))["volume_id"]
        taken = drive(volume_attachment, capsys, attached(instance, volume, device="/dev/sdf"))
        assert "/dev/sdf is taken: " in taken["msg"] and f"/dev/sdf ({other})" in taken["msg"]
        assert drive(volume_attachment, capsys, attached(instance, volume))["device"] == "/dev/sdg"


@pytest.mark.parametrize(
    ("faults", "timing"),
    [
        ([{"action": "AttachVolume", "codes": ["IncorrectState"]}], {}),
        ([{"action": "AttachVolume", "codes": ["lost"]}], {}),
        ([{"action": "ModifyInstanceAttribute", "codes": ["lost"]}], {}),
        ([], {"attach": 0.3}), ([], {"volume": 0.3}), ([], {"ids": 0.3}), ([], {"pending": 0.5}),
    ],
)  # fmt: skip
def test_it_is_attached_however_long_each_state_takes(aws, capsys, faults, timing):
    with aws(MARKET | {"faults": faults, "timing": [timing]}):
        instance = launch()
        if timing.get("ids"):
            time.sleep(0.4)
        volume = drive(run_volume, capsys, wanted(instance))["volume_id"]
        assert drive(volume_attachment, capsys, attached(instance, volume))["device"] == "/dev/sdf"
        [attachment] = volumes()[0]["Attachments"]
        assert (attachment["State"], attachment["DeleteOnTermination"]) == ("attached", True)


@pytest.mark.parametrize(
    ("timing", "words"), [({"attach": "forever"}, "to be attached"), ({"detach": "forever"}, "is detaching")]
)
def test_stuck_states_are_told(aws, capsys, timing, words):
    with aws(MARKET | {"timing": [timing]}):
        instance = launch()
        volume = drive(run_volume, capsys, wanted(instance))["volume_id"]
        drive(volume_attachment, capsys, attached(instance, volume), seconds=3)
        if "detach" in timing:
            ec2().detach_volume(VolumeId=volume)
        assert words in drive(volume_attachment, capsys, attached(instance, volume), seconds=3)["waiting_for"]


def test_a_volume_of_another_zone_is_not_attached_and_that_is_told(aws, capsys):
    with aws(MARKET):
        volume = drive(run_volume, capsys, wanted(launch("us-east-1a")))["volume_id"]
        told = drive(volume_attachment, capsys, attached(launch("us-east-1b"), volume))
    assert "InvalidVolume.ZoneMismatch" in told["msg"]


@pytest.mark.parametrize("action", ["CreateVolume", "AttachVolume"])
def test_credentials_that_expire_half_way_are_told_and_the_next_run_goes_on(aws, capsys, action):
    with aws(MARKET | {"faults": [{"action": action, "codes": ["RequestExpired"]}]}):
        instance = launch()
        made = drive(run_volume, capsys, wanted(instance))
        refused = made if action == "CreateVolume" else drive(
            volume_attachment, capsys, attached(instance, made["volume_id"])
        )
        assert "RequestExpired: Request has expired." in refused["msg"]
        attach(capsys, instance)
        assert len(volumes()) == 1


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_instance_that_has_vanished_is_told_with_what_to_do(aws, capsys, when):
    faults = [{"action": "AttachVolume", "codes": ["vanish"]}] if when == "meanwhile" else []
    with aws(MARKET | {"faults": faults}):
        instance = launch()
        volume = drive(run_volume, capsys, wanted(instance))["volume_id"]
        if when == "before":
            end(instance)
        told = drive(volume_attachment, capsys, attached(instance, volume))
        assert "the instance is terminated; run again: it launches another" in told["msg"]


# -- Deleted


def absent(**changes):
    return {"kind": "volume", "run": "r1", "tags": DATA, "delete_most": 1} | changes


def test_the_run_s_volumes_are_deleted_in_every_region_and_nobody_else_s(aws, capsys):
    rows = [
        {"region": "us-east-1", "zone": "us-east-1a", "size_gib": 1, "tags": DATA},
        {"region": "eu-west-1", "zone": "eu-west-1a", "size_gib": 1, "tags": DATA},
        {"region": "eu-west-1", "zone": "eu-west-1b", "size_gib": 1, "tags": DATA | {"run": "r2"}},
        {"region": "eu-west-1", "zone": "eu-west-1b", "size_gib": 1, "tags": {"volume": "data"}},
    ]
    with aws(MARKET | {"volumes": rows}):
        launch()
        refused = drive(run_storage_absent, capsys, absent())
        assert "at most 1 may be deleted, got" in refused["msg"] and "data_volume_delete_most=2" in refused["msg"]
        assert len(volumes()) + len(volumes("eu-west-1")) == 4
        predicted = drive(run_storage_absent, capsys, absent(delete_most=2), check=True)
        assert predicted["changed"] and len(volumes()) == 1
        done = drive(run_storage_absent, capsys, absent(delete_most=2))
        assert done["changed"] and len(done["deleted"]) == 2
        assert volumes() == [] and len(volumes("eu-west-1")) == 2
        assert len(volumes(run="r1")) == 1, "the root volume is gone"
        assert not drive(run_storage_absent, capsys, absent())["changed"]


@pytest.mark.parametrize(
    "vague", [{"run": "", "tags": DATA | {"run": ""}}, {"run": " "}, {"tags": {"run": "r1"}},
              {"tags": {"kit": "image-trainer"}}, {"tags": DATA | {"volume": ""}}, {"run": "r2"}]
)  # fmt: skip
def test_nothing_is_deleted_without_the_run_s_name(aws, calls, capsys, vague):
    with aws(MARKET):
        assert "tags must name the kit and the run" in drive(run_storage_absent, capsys, absent(**vague))["msg"]
        assert snapshots()
    assert {call["action"] for call in calls()} <= {"DescribeSnapshots"}


def test_what_an_instance_holds_is_waited_for_and_not_deleted(aws, capsys):
    with aws(MARKET | {"timing": [{"shutting_down": 0.5}]}):
        instance = launch()
        volume = attach(capsys, instance, delete_on_termination=False)
        held = drive(run_storage_absent, capsys, absent(), seconds=3)
        assert f"waiting until nothing holds {volume}" in held["waiting_for"] and volumes()
        end(instance)
        assert drive(run_storage_absent, capsys, absent())["changed"]
        assert volumes() == []


def test_a_region_that_cannot_be_read_is_told(aws, capsys):
    faults = [{"action": "DescribeVolumes", "region": "eu-west-1", "codes": ["UnauthorizedOperation"]}]
    with aws(MARKET | {"faults": faults}):
        told = drive(run_storage_absent, capsys, absent())
    assert told["unread"] == {"eu-west-1": "UnauthorizedOperation: You are not authorized to perform this operation."}


# -- Kept, and moved to another zone

KEPT = TAGS | {"volume": "checkpoints"}
SAVED = {"tags": KEPT, "snapshot_tags": TAGS | {"moves": "checkpoints"}, "settle_seconds": 2}


def kept_volume(zone, region="us-east-1"):
    made = ec2(region).create_volume(
        AvailabilityZone=zone, Size=5,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tag_list(KEPT)}],
    )  # fmt: skip
    ec2(region).describe_volumes()
    return made["VolumeId"]


@pytest.mark.parametrize("zone", ["us-east-1a", ""])
def test_a_kept_volume_is_saved_once_unless_it_is_where_it_is_wanted(aws, capsys, zone):
    with aws(MARKET | {"timing": [{"snapshot": 0.3}]}):
        volume = kept_volume("us-east-1b")
        saved = drive(volume_saved, capsys, SAVED | {"zone": zone})
        again = drive(volume_saved, capsys, SAVED | {"zone": zone})
        there = drive(volume_saved, capsys, SAVED | {"zone": "us-east-1b"})
        [snapshot] = [row for row in snapshots() if row["VolumeId"] == volume]
    assert (saved["changed"], saved["snapshot_id"]) == (True, snapshot["SnapshotId"])
    assert (again["changed"], again["snapshot_id"]) == (False, snapshot["SnapshotId"])
    assert (there["changed"], there["snapshot_id"]) == (False, "")


@pytest.mark.parametrize("word", ["lost", "refused"])
def test_a_lost_answer_makes_no_second_snapshot(aws, capsys, word):
    with aws(MARKET | {"faults": [{"action": "CreateSnapshot", "codes": [word]}]}):
        volume = kept_volume("us-east-1b")
        drive(volume_saved, capsys, SAVED, )
        assert len([row for row in snapshots() if row["VolumeId"] == volume]) == 1


def test_without_a_kept_volume_there_is_nothing_to_save(aws, capsys):
    with aws(MARKET):
        told = drive(volume_saved, capsys, SAVED)
    assert told == {"changed": False, "snapshot_id": "", "snapshot_ids": [], "waits": []}


def test_each_life_of_a_run_leaves_a_snapshot_and_the_newest_is_told_once_the_volume_is_gone(aws, capsys):
    with aws(MARKET):
        saved = []
        for zone in ("us-east-1a", "us-east-1b"):
            volume = kept_volume(zone)
            saved.append(drive(volume_saved, capsys, SAVED)["snapshot_id"])
            ec2().delete_volume(VolumeId=volume)
        again = drive(volume_saved, capsys, SAVED)
    assert len(set(saved)) == 2
    assert (again["changed"], again["snapshot_ids"]) == (False, saved[-1:])


def test_two_kept_volumes_of_a_run_that_is_retired_are_saved_both_and_moving_picks_none(aws, capsys):
    with aws(MARKET | {"timing": [{"snapshot": 0.3}]}):
        made = [kept_volume("us-east-1b"), kept_volume("eu-west-1b", "eu-west-1")]
        moved = drive(volume_saved, capsys, SAVED | {"zone": "us-east-1a"})
        saved = drive(volume_saved, capsys, SAVED)
        again = drive(volume_saved, capsys, SAVED)
        rows = [row for region in ("us-east-1", "eu-west-1") for row in snapshots(region) if row["VolumeId"] in made]
    assert all(f"{volume} (" in moved["msg"] for volume in made), moved
    assert (saved["changed"], again["changed"]) == (True, False)
    assert sorted(saved["snapshot_ids"]) == sorted(again["snapshot_ids"]) == sorted(row["SnapshotId"] for row in rows)
    assert {row["VolumeId"] for row in rows} == set(made) and len(rows) == 2


def test_a_snapshot_by_which_a_volume_moved_is_not_the_one_that_outlives_it(aws, capsys):
    with aws(MARKET):
        volume = kept_volume("us-east-1b")
        moves = drive(volume_saved, capsys, SAVED | {"zone": "us-east-1a"})["snapshot_id"]
        kept_from = {"kit": "image-trainer", "kept_from": "r1"}
        saved = drive(volume_saved, capsys, SAVED | {"snapshot_tags": kept_from})["snapshot_id"]
        assert len([row for row in snapshots() if row["VolumeId"] == volume]) == 2
    assert saved and saved != moves


def test_a_region_that_cannot_be_read_may_hold_it_so_nothing_is_decided(aws, capsys):
    faults = [{"action": "DescribeVolumes", "region": "eu-west-1", "codes": ["OperationNotPermitted"]}]
    with aws(MARKET | {"faults": faults}):
        assert "a region could not be read: eu-west-1" in drive(volume_saved, capsys, SAVED)["msg"]


@pytest.mark.parametrize("zone", ["us-east-1a", ""])
def test_a_region_that_the_account_may_not_use_holds_none_and_all_of_them_are_told(aws, capsys, zone):
    closed = {"codes": ["UnauthorizedOperation"], "forever": True}
    with aws(MARKET | {"faults": [closed | {"action": "Describe*", "region": "eu-west-1"}]}):
        volume = kept_volume("us-east-1b")
        saved = drive(volume_saved, capsys, SAVED | {"zone": zone})
        assert [row["SnapshotId"] for row in snapshots() if row["VolumeId"] == volume] == [saved["snapshot_id"]]
    with aws(MARKET | {"faults": [closed | {"action": "DescribeVolumes"}]}):
        told = drive(volume_saved, capsys, SAVED | {"zone": zone})
    assert all(f"{region}: UnauthorizedOperation" in told["msg"] for region in ("us-east-1", "eu-west-1")), told


def test_the_list_of_regions_is_had_where_the_user_s_own_may_not_be_used(aws, capsys):
    faults = [{"action": "Describe*", "region": "us-east-1", "codes": ["UnauthorizedOperation"], "forever": True}]
    with aws(MARKET | {"faults": faults}):
        volume = kept_volume("eu-west-1b", "eu-west-1")
        assert drive(volume_saved, capsys, SAVED)["changed"]
        assert [row["VolumeId"] for row in snapshots("eu-west-1")] == [volume]


def test_a_check_of_retiring_says_that_it_is_saved_while_its_instance_lives(aws, calls, capsys):
    with aws(MARKET):
        instance, volume = launch("us-east-1b"), kept_volume("us-east-1b")
        ec2().attach_volume(VolumeId=volume, InstanceId=instance["id"], Device="/dev/sdg")
        told = look(volume_saved, capsys, SAVED, check=True)
        moved = look(volume_saved, capsys, SAVED | {"zone": "us-east-1a"}, check=True)
    assert (told["changed"], told["snapshot_ids"]) == (True, [])
    assert "stop what writes to it first" in moved["msg"]
    assert "CreateSnapshot" not in {call["action"] for call in calls()}


def test_what_a_living_instance_writes_to_is_not_saved(aws, capsys):
    with aws(MARKET):
        instance, volume = launch("us-east-1b"), kept_volume("us-east-1b")
        ec2().attach_volume(VolumeId=volume, InstanceId=instance["id"], Device="/dev/sdg")
        assert "stop what writes to it first" in drive(volume_saved, capsys, SAVED)["msg"]
