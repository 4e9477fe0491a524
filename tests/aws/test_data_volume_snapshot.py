"""The data set's snapshot in a region: found, waited for, copied once."""

import pytest
from volume_plays import MARKET, ec2, snapshots, tag_list
from volume_steps import drive, load, look

data_snapshot = load("data_snapshot")
QUESTION = {
    "region": "eu-west-1", "run": "r1", "kit_tags": {"kit": "image-trainer"},
    "snapshot_tags": {"dataset": "imagenet"}, "settle_seconds": 2,
}  # fmt: skip
BY_ID = {"snapshot_id": "snap-1", "snapshot_tags": {}}


def copies(calls):
    return [call for call in calls() if call["action"] == "CopySnapshot"]


@pytest.mark.parametrize("question", [{}, BY_ID])
def test_what_is_there_is_used(aws, calls, capsys, question):
    with aws(MARKET):
        told = drive(data_snapshot, capsys, QUESTION | question | {"region": "us-east-1"})
    assert (told["snapshot_id"], told["changed"], told["size_gb"], told["waits"]) == ("snap-1", False, 150, [])
    assert copies(calls) == []


@pytest.mark.parametrize("question", [{}, BY_ID, {"source_regions": ["us-east-1"]}])
def test_what_is_elsewhere_is_copied_once_encrypted_and_with_its_tags(aws, calls, capsys, question):
    with aws(MARKET | {"timing": [{"copying": 0.5}]}):
        told = drive(data_snapshot, capsys, QUESTION | question)
        again = drive(data_snapshot, capsys, QUESTION | question)
        [copy] = snapshots("eu-west-1")
    assert (told["snapshot_id"], told["changed"]) == (copy["SnapshotId"], True)
    assert (again["snapshot_id"], again["changed"]) == (copy["SnapshotId"], False)
    assert copy["Encrypted"]
    tags = {tag["Key"]: tag["Value"] for tag in copy["Tags"]}
    assert tags == {
        "kit": "image-trainer", "dataset": "imagenet", "copy_of": "snap-1", "copied_from": "us-east-1",
        "copied_for": "r1",
    }  # fmt: skip
    assert any("150 GiB" in words for words in told["waits"])
    assert len(copies(calls)) == 1


def test_a_copy_under_way_is_waited_for_and_not_started_again(aws, calls, capsys):
    with aws(MARKET | {"timing": [{"copying": 0.5}]}):
        assert look(data_snapshot, capsys, QUESTION)["changed"]
        told = drive(data_snapshot, capsys, QUESTION)
    assert (told["changed"], bool(told["snapshot_id"])) == (False, True)
    assert len(copies(calls)) == 1


@pytest.mark.parametrize(
    ("words", "timing"),
    [
        (["lost"], {}), (["refused"], {}), (["RequestLimitExceeded"], {}), (["InternalError"], {}),
        (["ResourceLimitExceeded"], {}), ([], {"tags": 0.5}), ([], {"ids": 0.5}), (["lost"], {"tags": 0.5}),
    ],
)  # fmt: skip
def test_whatever_becomes_of_the_answer_there_is_one_copy(aws, capsys, words, timing):
    faults = [{"action": "CopySnapshot", "codes": words}] if words else []
    with aws(MARKET | {"faults": faults, "timing": [timing]}):
        told = drive(data_snapshot, capsys, QUESTION, )
        [copy] = snapshots("eu-west-1")
    assert told["snapshot_id"] == copy["SnapshotId"]


def test_a_copy_that_ends_in_an_error_is_told_and_the_next_run_replaces_it(aws, capsys):
    failing = [{"region": "eu-west-1", "copying": 0.2, "copying_ends": "error", "copying_message": "no room"}]
    with aws(MARKET | {"timing": failing}):
        told = drive(data_snapshot, capsys, QUESTION)
        [failed] = snapshots("eu-west-1")
        assert failed["SnapshotId"] in told["msg"] and "AWS says: no room" in told["msg"]
        told = drive(data_snapshot, capsys, QUESTION)
        [second] = snapshots("eu-west-1")
        assert "no room" in told["msg"] and second["SnapshotId"] != failed["SnapshotId"]


KEYS = [{"name": "off", "region": "eu-west-1", "enabled": False}, {"name": "mine", "region": "eu-west-1"}]


@pytest.mark.parametrize(
    ("key", "words"),
    [("alias/none", "data_volume_kms_key_alias must be a key there, got alias/none"),
     ("alias/off", "the key alias/off (data_volume_kms_key_alias) is not enabled there")],
)  # fmt: skip
def test_a_key_that_cannot_be_used_is_told_before_anything_is_copied(aws, calls, capsys, key, words):
    with aws(MARKET | {"keys": KEYS}):
        assert words in drive(data_snapshot, capsys, QUESTION | {"kms_key_alias": key})["msg"]
    assert copies(calls) == []


def test_the_key_of_the_region_encrypts_the_copy(aws, capsys):
    with aws(MARKET | {"keys": KEYS}):
        drive(data_snapshot, capsys, QUESTION | {"kms_key_alias": "alias/mine"})
        key = ec2("eu-west-1").meta.region_name
        assert snapshots("eu-west-1")[0]["KmsKeyId"].startswith(f"arn:aws:kms:{key}")


def another(region, size=150):
    tags = {"dataset": "imagenet"}
    return {"id": f"snap-{region}-{size}", "region": region, "size_gib": size, "tags": tags}


@pytest.mark.parametrize(
    ("more", "question", "words"),
    [
        ([another("us-east-1")], {}, "one in each region of one size, got snap-1 (us-east-1, completed), snap-us-east"),
        ([another("us-west-2", 200)], {}, "of one size, got"),
        ([another("eu-west-1"), another("eu-west-1", 200)], {}, "must be one, got snap-eu-west-1-150 (eu-west-1"),
        ([], {"snapshot_tags": {"dataset": "none"}}, "no region (eu-west-1, us-east-1, us-west-2) has {'datas"),
        ([], {"snapshot_id": "snap-0", "snapshot_tags": {}}, "has snap-0"),
    ],
)  # fmt: skip
def test_none_and_several_are_errors_that_name_them(aws, calls, capsys, more, question, words):
    regions = MARKET["regions"] | {"us-west-2": {}}
    with aws(MARKET | {"regions": regions, "snapshots": MARKET["snapshots"] + more}):
        assert words in drive(data_snapshot, capsys, QUESTION | question)["msg"]
    assert copies(calls) == []


def test_an_id_decides_between_several(aws, capsys):
    with aws(MARKET | {"snapshots": [*MARKET["snapshots"], another("us-east-1")]}):
        told = drive(data_snapshot, capsys, QUESTION | {"snapshot_id": "snap-1"})
        assert told["changed"] and snapshots("eu-west-1")[0]["Description"].startswith("snap-1 ")


def test_a_region_that_cannot_be_read_is_named_when_nothing_is_found(aws, capsys):
    faults = [{"region": "us-east-1", "action": "DescribeSnapshots", "codes": ["UnauthorizedOperation"]}]
    with aws(MARKET | {"faults": faults}):
        told = drive(data_snapshot, capsys, QUESTION)
    assert "us-east-1 could not be read: UnauthorizedOperation" in told["msg"]


def test_a_source_that_is_not_complete_is_not_copied(aws, calls, capsys):
    growing = MARKET["snapshots"][0] | {"state": "pending"}
    with aws(MARKET | {"snapshots": [growing]}):
        assert "not complete: snap-1 (us-east-1, pending)" in drive(data_snapshot, capsys, QUESTION)["msg"]
    assert copies(calls) == []


def test_a_copy_of_somebody_else_s_that_is_on_its_way_is_waited_for(aws, calls, capsys):
    with aws(MARKET | {"timing": [{"copying": "forever"}]}):
        made = ec2("eu-west-1").copy_snapshot(
            SourceRegion="us-east-1", SourceSnapshotId="snap-1",
            TagSpecifications=[{"ResourceType": "snapshot", "Tags": tag_list({"dataset": "imagenet"})}],
        )["SnapshotId"]  # fmt: skip
        told = drive(data_snapshot, capsys, QUESTION, seconds=3)
    assert told["waiting_for"] == f"waiting for snapshot {made} to be complete: 0% after 0 min"
    assert len(copies(calls)) == 1


def test_check_mode_says_what_would_be_copied(aws, calls, capsys):
    with aws(MARKET):
        told = drive(data_snapshot, capsys, QUESTION, check=True)
    assert told["changed"] and told["would"] == "would copy snap-1 (150 GiB) from us-east-1 to eu-west-1"
    assert copies(calls) == []


def test_credentials_that_expire_are_told(aws, capsys):
    faults = [{"action": "CopySnapshot", "codes": ["ExpiredToken"]}]
    with aws(MARKET | {"faults": faults}):
        told = drive(data_snapshot, capsys, QUESTION)
    assert "ExpiredToken: The provided token has expired" in told["msg"]
