"""Predictions: what validation would compute, for files, with names; what cannot be read is told and passed over."""

import json
import subprocess
import sys

import cv2
import mxnet as mx
import numpy as np
import pytest
from tiny_data import picture, write_records

from trainer.config import Config
from trainer.data.loader import validation_batches
from trainer.data.records import open_records
from trainer.errors import ConfigError
from trainer.learn.export import export_model
from trainer.learn.model import build_network, initialise_network
from trainer.learn.predict import predict
from trainer.run import Run

NAMES = ["bag", "boot", "coat", "Kleid ä"]


def exported(directory, classes=NAMES, **changes):
    values = {
        "run_directory": directory, "data_train": "train.rec", "num_classes": 4, "epochs": 1, "batch_size": 4,
        "warmup_epochs": 0, "learning_rate": 0.1, "num_layers": 8, "image_shape": (3, 28, 28),
        "mean": (100, 90, 80), "std": (60, 50, 40),
    }
    configuration = Config.model_validate(values | changes)
    network = build_network(configuration)
    initialise_network(network, configuration, [mx.cpu()])
    run = Run(directory)
    run.config.write_text(configuration.to_toml())
    export_model(network, run, configuration, classes=classes, top1=None)
    return run, configuration, network


def write_pictures(folder, count, pixels):
    files = [folder / f"{number}.jpg" for number in range(count)]
    for number, file in enumerate(files):
        file.write_bytes(picture(number % 4, number, pixels))
    return files


@pytest.mark.parametrize("shape", [(3, 28, 28), (3, 40, 48)])
def test_predictions_are_what_validation_computes(tmp_path, shape):
    layers = 8 if shape[1] == 28 else 18
    run, configuration, network = exported(tmp_path, image_shape=shape, num_layers=layers)
    # The files hold the same pictures as the records: write_records draws them from the same seeds.
    files = write_pictures(tmp_path, 35, 28)
    records = open_records(write_records(tmp_path / "val.rec", 35))
    (batch,) = validation_batches(
        records, batch_size=35, image_shape=shape, mean=configuration.mean, std=configuration.std, threads=1
    )
    expected = mx.nd.softmax(network(mx.nd.array(batch.images))).asnumpy()
    predictions = predict(run, files, top=4)
    assert [prediction.file for prediction in predictions] == files
    for prediction, row in zip(predictions, expected, strict=True):
        assert [name for name, _ in prediction.top] == [NAMES[number] for number in np.argsort(-row, kind="stable")]
        np.testing.assert_allclose([share for _, share in prediction.top], -np.sort(-row), rtol=1e-4)


def test_more_classes_than_there_are_and_classes_without_names(tmp_path):
    run, _, _ = exported(tmp_path, classes=None)
    (prediction,) = predict(run, write_pictures(tmp_path, 1, 28), top=9)
    assert sorted(name for name, _ in prediction.top) == ["0", "1", "2", "3"]
    assert sum(share for _, share in prediction.top) == pytest.approx(1)


def test_a_run_without_a_model_says_how_to_get_one(tmp_path):
    with pytest.raises(ConfigError, match=r"got .*, which is not finished; .*: ./kit trainer export --run "):
        predict(Run(tmp_path), [])


def command(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "trainer", "predict", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False,
    )


def test_the_command_passes_over_what_it_cannot_read_and_says_so(tmp_path):
    run, _, _ = exported(tmp_path)
    good, cut = write_pictures(tmp_path, 2, 60)
    cut.write_bytes(cut.read_bytes()[:400])
    png = tmp_path / "grey.png"
    cv2.imwrite(str(png), np.zeros((9, 9), np.uint8))
    result = command("--run", run.directory, tmp_path / "none.jpg", good, cut, tmp_path, png, "--top", 2)
    assert result.returncode == 66
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == [str(good)] * 2 + [str(png)] * 2
    assert all(name in NAMES and 0 <= float(share) <= 1 for _, name, share in lines)
    errors = result.stderr.splitlines()
    assert len(errors) == 3
    why = "must be a picture, but cannot be read"
    assert errors[0] == f"error: {tmp_path / 'none.jpg'}: {why}: No such file or directory"
    assert errors[1].startswith(f"error: {cut}: {why}: damaged JPEG")
    assert errors[2] == f"error: {tmp_path}: {why}: Is a directory"


def test_the_command_prints_json(tmp_path):
    run, _, _ = exported(tmp_path)
    (file,) = write_pictures(tmp_path, 1, 28)
    result = command("--run", run.directory, file, tmp_path / "none.jpg", "--json")
    first, second = json.loads(result.stdout)
    assert first["file"] == str(file)
    assert [entry["class"] for entry in first["classes"]] == [name for name, _ in predict(run, [file])[0].top]
    assert second == {"file": str(tmp_path / "none.jpg"), "error": "No such file or directory"}
    assert result.returncode == 66
