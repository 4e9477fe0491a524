"""Data and a recipe that a small network learns within seconds."""

import pytest
from tiny_data import CLASSES, PIXELS, write_records

import trainer.learn  # noqa: F401 (before any test imports MXNet: gives numpy the names that it asks for)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory):
    """{"train": 160 records, "val": 42 records} of four classes, 28 px."""
    folder = tmp_path_factory.mktemp("tiny")
    return {
        "train": write_records(folder / "train.rec", 160),
        "val": write_records(folder / "val.rec", 42, seed=1),
    }


@pytest.fixture
def tiny_recipe(tiny_data, tmp_path):
    """Values of a configuration that learns the tiny data within seconds."""
    return {
        "run_directory": str(tmp_path / "run" / "tiny"), "data_train": str(tiny_data["train"]),
        "data_val": str(tiny_data["val"]), "image_shape": [3, PIXELS, PIXELS], "num_classes": CLASSES,
        "network": "resnet", "num_layers": 8, "epochs": 2, "batch_size": 16, "base_learning_rate": 0.8,
        "warmup_epochs": 0.2, "augmentation": "none", "decode_threads": 2, "label_smoothing": 0.0,
        "mean": [100, 100, 100], "std": [60, 60, 60],
    }
