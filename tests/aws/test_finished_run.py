"""playbooks/train.yml for a run that is finished and whose machine has ended itself."""

import json

import boto3
import pytest
from test_retire import MARKET, SETTINGS, alive, changed, put_mirror

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
        for _ in range(2):
            code, words = train(tmp_path, checkpoint_mirror_enabled=is_mirrored, trainer_epochs=90)
            assert code == 0, words
            assert "trainer-1 is finished after 90 epochs, and nothing is rented" in words
        assert (changed(words), alive()) == (0, [])


@pytest.mark.slow
def test_more_epochs_are_another_matter(aws, tmp_path):
    (tmp_path / "run/trainer-1").mkdir(parents=True)
    (tmp_path / "run/trainer-1/report.json").write_text(json.dumps({"finished": True, "epochs_total": 90}))
    with aws(MARKET):
        _, words = train(tmp_path, "--check", trainer_epochs=91)
    assert "is finished" not in words
