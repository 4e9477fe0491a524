"""playbooks/train.yml for a run that is finished and whose machine has ended itself."""

import json

import boto3
import pytest
from test_retire import MARKET, SETTINGS, TYPE, alive, changed, ours, put_mirror

from tests.rehearsal.market import PROFILE
from tests.rehearsal.playing import playbook

EVENTS = [{"t": 1, "kind": "start", "epochs": 90}, {"t": 2, "kind": "stop", "reason": "finished"}]


def train(folder, *options, **more):
    done = playbook("train.yml", SETTINGS | more, folder, *options)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("is_mirrored", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_nothing_is_rented_for_it(aws, tmp_path, is_mirrored):
    with aws(MARKET):
        if is_mirrored:
            put_mirror({"copies": [{"name": "00000600-90", "step": 600}]})
            body = "".join(json.dumps(event) + "\n" for event in EVENTS).encode()
            bucket = boto3.client("s3", region_name="us-west-2").list_buckets()["Buckets"][0]["Name"]
            boto3.client("s3", region_name="us-west-2").put_object(
                Bucket=bucket, Key="runs/trainer-1/events.jsonl", Body=body
            )
        else:
            (tmp_path / "run/trainer-1").mkdir(parents=True)
            (tmp_path / "run/trainer-1/report.json").write_text(json.dumps({"finished": True, "epochs_total": 90}))
        # The first only looks; more epochs are more than the trainer takes from a finished run.
        for options, epochs in ((["--check"], 90), ([], 91), ([], 90)):
            code, words = train(tmp_path, *options, checkpoint_mirror_enabled=is_mirrored, trainer_epochs=epochs)
            assert code == 0, words
            assert "trainer-1 is finished after 90 epochs, and nothing is rented" in words
        assert (changed(words), alive()) == (0, [])


@pytest.mark.slow
def test_a_check_ends_at_the_first_thing_that_it_could_only_predict(aws, tmp_path):
    """There is a machine without a volume: what comes after that on the machine is left out, and nothing is changed."""
    (tmp_path / "run/trainer-1/ssh").mkdir(parents=True)
    for name in ("id_ed25519", "known_hosts"):
        (tmp_path / "run/trainer-1/ssh" / name).touch()
    snapshot = {"id": "snap-1", "region": "us-east-1", "size_gib": 150, "tags": {"dataset": "imagenet"}}
    with aws(MARKET | {"instances": [ours()], "snapshots": [snapshot]}):
        before = alive()
        wanted = {
            "data_volume_enabled": True, "spot_instance_ssh_cidr": "192.0.2.7/32", "instance_profiles": {TYPE: PROFILE},
        }  # fmt: skip
        code, words = train(tmp_path, "--check", **wanted)
        assert code == 0, words
        assert "would make a volume from snap-1" in words
        assert alive() == before
        assert "unreachable=0" in words
