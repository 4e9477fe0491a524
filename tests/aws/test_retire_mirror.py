"""playbooks/retire.yml for a run whose machine is gone: its second place has the results."""

import json
import os
import shutil
import subprocess
import sys

import boto3
import pytest
from test_retire import MARKET, SETTINGS, alive, changed, ours
from tiny_data import CLASSES, write_records

from tests.rehearsal.playing import playbook
from tests.roles.playing import PROJECT
from trainer.config import build

BUCKET = "trainer-123456789012-us-west-2"


def train(folder):
    """A run of a few steps, as on a machine that is lost afterwards."""
    run = folder / "host/trainer-1"
    run.mkdir(parents=True)
    values = {
        "run_directory": str(run), "data_train": str(write_records(folder / "train.rec", 64)), "num_classes": CLASSES,
        "image_shape": [3, 28, 28], "num_layers": 8, "epochs": 100, "batch_size": 16, "augmentation": "none",
        "learning_rate": 0.1, "warmup_epochs": 0, "checkpoint_mirror": f"s3://{BUCKET}/runs",
    }  # fmt: skip
    (run / "config.toml").write_text(build(values, source="test", folder=folder).to_toml())
    command = [sys.executable, "-P", "-m", "trainer", "train", "--config", run / "config.toml", "--until-step", "6"]
    subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(PROJECT)}, check=True, timeout=300)


def retire(folder, **more):
    settings = SETTINGS | {"checkpoint_mirror_enabled": True, "retire_confirmed": True} | more
    done = playbook("retire.yml", settings, folder)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.slow
def test_the_results_of_a_lost_machine_come_from_its_second_place(aws, tmp_path):
    with aws(MARKET | {"instances": [ours(ended="-1h", taken_back=True)]}):
        s3 = boto3.client("s3", region_name="us-west-2")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        code, words = retire(tmp_path)
        assert code == 2
        assert "no second place has them" in words
        train(tmp_path)
        here = tmp_path / "run/trainer-1"
        for name in ("events.jsonl", "config.toml"):  # as status.yml brought them before the loss
            shutil.copy(tmp_path / "host/trainer-1" / name, here / name)
        code, words = retire(tmp_path)
        assert code == 0, words
        report, bill = (json.loads((here / name).read_text()) for name in ("report.json", "bill.json"))
        assert report["steps"] == 6
        assert report["cost"]["usd"] == bill["total_usd"] > 0, "the report is that of the last bill"
        assert report["cost"]["billed"]
        assert json.loads((here / "model.json").read_text())
        assert (here / "events.jsonl").stat().st_size == (tmp_path / "host/trainer-1/events.jsonl").stat().st_size
        assert list((here / "checkpoints").iterdir())
        assert "keeps" in words and "-e checkpoint_mirror_keep=false deletes them" in words
        code, words = retire(tmp_path)
        assert (code, changed(words)) == (0, 0), words
        assert alive() == []
