"""docs/iam/volume.json allows what the modules of role data_volume call, no more and no less."""

from permissions import allowed
from test_data_volume_disk import KEPT, SAVED, absent, attached, kept_volume, wanted
from volume_plays import MARKET, end, launch, snapshots
from volume_steps import drive, load

# EC2 calls these for whoever makes an encrypted copy or volume with a key of one's own; nobody sees them from outside.
BY_EC2 = {
    "kms:CreateGrant", "kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo",
}  # fmt: skip


def test_the_calls_of_a_run_from_its_copy_to_its_end_are_those_allowed(aws, calls, capsys):
    used, snapshot, volume, attachment, gone, saved = set(), *map(
        load, ("data_snapshot", "run_volume", "volume_attachment", "run_storage_absent", "volume_saved")
    )

    def drive_noting(module, arguments):
        seen = len(calls())
        told = drive(module, capsys, arguments)
        used.update(action for call in calls()[seen:] for action in call["iam"])
        return told

    with aws(MARKET | {"keys": [{"name": "mine", "region": "eu-west-1"}]}, "volume"):
        instance = launch("eu-west-1a")
        question = {
            "region": "eu-west-1", "run": "r1", "kit_tags": {"kit": "image-trainer"}, "snapshot_id": "snap-1",
            "kms_key_alias": "alias/mine",
        }  # fmt: skip
        copy = drive_noting(snapshot, question)["snapshot_id"]
        made = drive_noting(volume, wanted(instance, snapshot_id=copy))["volume_id"]
        assert drive_noting(attachment, attached(instance, made, delete_on_termination=True))["changed"]
        end(instance)
        kept_volume("eu-west-1b", "eu-west-1")
        assert drive_noting(saved, SAVED)["changed"]
        assert drive_noting(gone, absent(tags=KEPT))["changed"]
        moves = {"kind": "snapshot", "tags": SAVED["snapshot_tags"]}
        assert drive_noting(gone, absent(**moves))["changed"]
        assert [row["SnapshotId"] for row in snapshots("eu-west-1")] == [copy]
    assert used | BY_EC2 == allowed("volume")
