"""The configuration: what is accepted, and what each refusal says."""

from pathlib import Path

import pytest

from trainer import config as config_module
from trainer.errors import ConfigError

VALID = {
    "run_directory": "run/x", "data_train": "train.rec", "data_val": "val.rec", "num_layers": 50, "epochs": 90,
    "batch_size": 256, "base_learning_rate": 0.1, "num_classes": 1000,
}


def build(**changes):
    values = {key: value for key, value in (VALID | changes).items() if value is not None}
    return config_module.build(values, source="trainer.toml", folder=Path("/somewhere"))


def test_a_valid_file_becomes_a_frozen_object_with_absolute_paths(tmp_path):
    path = tmp_path / "trainer.toml"
    path.write_text(
        'run_directory = "run/x"\ndata_train = "train.rec"\nnum_layers = 18\nnum_classes = 5\n'
        "epochs = 2\nbatch_size = 8\nlearning_rate = 0.1\nwarmup_epochs = 0\n"
    )
    loaded = config_module.load(path)
    assert loaded.data_train == tmp_path / "train.rec"
    assert loaded.epochs == 2.0
    with pytest.raises(ValueError, match="frozen"):
        loaded.batch_size = 9


def test_what_is_written_as_toml_reads_back_equal(tmp_path):
    original = build(devices=["cpu(0)", "cpu(1)"], init_from="a.params", augmentation="pad")
    path = tmp_path / "trainer.toml"
    path.write_text(original.to_toml())
    assert config_module.load(path) == original


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size must be the images of one step .*, a whole number above 0, got 0"),
        ({"batch_size": -3}, "batch_size must be .*, got -3"),
        ({"batch_size": "many"}, "batch_size must be .*, got 'many'"),
        ({"checkpoint_interval": 0}, 'checkpoint_interval must be "auto" .* or the seconds .* above 0, got 0'),
        ({"checkpoint_interval": "often"}, "checkpoint_interval must be .*, got 'often'"),
        ({"mean_seconds_between_interruptions": 0}, "mean_seconds_between_interruptions must be .*, got 0"),
        ({"batch_size": 12.5}, "batch_size must be .*, got 12.5"),
        ({"batch_size": True}, "batch_size must be .*, got True"),
        ({"batch_size": None}, "batch_size must be .*, got nothing"),
        ({"data_train": None}, "data_train must be the path of a .rec file, got nothing"),
        ({"batchsize": 64}, r"batchsize must be a known key \(did you mean batch_size\?\), got batchsize = 64"),
        ({"zzz": 1}, "zzz must be a known key, got zzz = 1"),
        ({"image_shape": [1, 28, 28]}, r"image_shape must be \[3, height, width\], got 1 at image_shape\[0\]"),
        ({"image_shape": [3, 28]}, r"image_shape must be \[3, height, width\], got"),
        ({"image_shape": [3, 0, 28]}, r"image_shape must be \[3, height, width\], got 0 at image_shape\[1\]"),
        ({"devices": []}, "devices must be a list like"),
        ({"devices": ["tpu(0)"]}, r"devices must be a list like .*, got 'tpu\(0\)' at devices\[0\]"),
        ({"devices": ["cpu(0)", "cpu(0)"]}, "devices must be different devices of one kind"),
        ({"devices": ["cpu(0)", "gpu(0)"]}, "devices must be different devices of one kind"),
        ({"devices": ["cpu(0)", "cpu(1)", "cpu(2)"]}, r"batch_size must be a multiple of .* \(3\), got 256"),
        ({"precision": "float16"}, 'precision must be "float32" or "bfloat16" on CPU devices, got "float16"'),
        ({"kvstore": "nccl"}, 'kvstore must be "device" or "local" on CPU devices, got "nccl"'),
        ({"num_layers": 49}, "num_layers must be one of 18, 34, 50, 101, 152 for images of 224 px, got 49"),
        ({"num_layers": 50, "image_shape": [3, 28, 28]}, "num_layers must be one of 8, 20, .* of 28 px, got 50"),
        ({"num_layers": None}, "num_layers must be one of .*, got nothing"),
        ({"network": "vgg11"}, 'num_layers must be left out for network "vgg11", got 50'),
        ({"learning_rate": 0.1}, "base_learning_rate must be .* and not both, got base_learning_rate and"),
        ({"base_learning_rate": None}, "base_learning_rate must be .* and not both, got neither"),
        ({"base_learning_rate": 0}, "base_learning_rate must be .* a number above 0, got 0"),
        ({"base_learning_rate": float("nan")}, "base_learning_rate must be .* a number above 0, got nan"),
        ({"warmup_epochs": 90}, r"warmup_epochs must be below epochs \(90\), got 90"),
        ({"learning_rate_step_epochs": [60, 30]}, r"learning_rate_step_epochs must be rising, got \[60.0, 30.0\]"),
        ({"momentum": 1}, "momentum must be a number of 0 or more, below 1, got 1"),
        ({"label_smoothing": 1.5}, "label_smoothing must be"),
        ({"num_classes": 1}, "num_classes must be a whole number from 2 to 16777216, got 1"),
        ({"augmentation": "mild"}, "augmentation must be .*, got 'mild'"),
        ({"std": [1, 0, 1]}, r"std must be three numbers above 0 .*, got 0 at std\[1\]"),
        ({"std": [1, 1]}, "std must be three numbers above 0"),
        ({"load_epoch": 3}, "model_prefix must be given with load_epoch"),
        ({"load_epoch": 90, "model_prefix": "m"}, r"load_epoch must be below epochs \(90\), got 90"),
        ({"load_epoch": 1, "model_prefix": "m", "init_from": "x"}, "init_from must be left out with load_epoch"),
        ({"seed": 2**31}, "seed must be a whole number from 0 to"),
    ],
)
def test_each_impossible_value_is_told(changes, message):
    with pytest.raises(ConfigError, match=f"^trainer.toml: {message}"):
        build(**changes)


def test_all_problems_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        build(batch_size=-1, momentum=3, colour="red", epochs=None)
    assert [problem.split()[1] for problem in caught.value.problems] == ["epochs", "batch_size", "momentum", "colour"]


def test_a_bad_key_hides_no_broken_rule():
    with pytest.raises(ConfigError) as caught:
        build(colour="red", precision="float16", batch_size=3, devices=["cpu(0)", "cpu(1)"], epochs=-1)
    assert [problem.split()[1] for problem in caught.value.problems] == ["epochs", "colour", "batch_size", "precision"]


def test_rules_between_keys_are_told_together():
    with pytest.raises(ConfigError) as caught:
        build(num_layers=3, precision="float16", base_learning_rate=None)
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("content", [b"batch_size = ", b"\xff\xfe", None])
def test_a_file_that_is_no_toml_is_a_config_error(tmp_path, content):
    path = tmp_path / "trainer.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="trainer.toml: the file must be readable TOML"):
        config_module.load(path)
