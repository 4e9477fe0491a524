"""The exported model: plain MXNet and onnxruntime compute what the network in training computes."""

import json
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import mxnet as mx
import numpy as np
import onnx
import onnxruntime
import pytest
import tomli_w
from mxnet import autograd, gluon
from training import needs_bfloat16

from trainer.config import Config
from trainer.errors import ConfigError, DataError, DiskError, TrainerError
from trainer.learn import onnx_export
from trainer.learn.export import (
    export_model,
    export_newest_checkpoint,
    load_exported,
    read_card,
    write_symbol_and_params,
)
from trainer.learn.model import build_network, initialise_network
from trainer.learn.parameters import write_arrays
from trainer.run import Run

COMMAND = [sys.executable, "-m", "trainer"]
CPU = (mx.cpu(),)
NAMES = ["bag", "boot", "coat", "Kleid ä"]


def config(tmp_path, **changes) -> Config:
    values = {
        "run_directory": tmp_path, "data_train": "train.rec", "num_classes": 4, "epochs": 3, "batch_size": 4,
        "learning_rate": 0.1, "num_layers": 8, "image_shape": (3, 28, 28),
    }
    return Config.model_validate(values | changes)


def images_of(configuration: Config, count: int = 3):
    return mx.nd.array(np.random.default_rng(1).standard_normal((count, *configuration.image_shape)))


def trained(configuration: Config, contexts=CPU):
    """A network after two steps, so that no statistic has its first value."""
    network = build_network(configuration)
    initialise_network(network, configuration, list(contexts))
    network.hybridize(static_alloc=True, static_shape=True)
    optimizer = gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 0.01})
    for _ in range(2):
        train_step(network, optimizer, configuration, contexts)
    return network, optimizer


def train_step(network, optimizer, configuration: Config, contexts) -> None:
    parts = gluon.utils.split_and_load(images_of(configuration, 2 * len(contexts)), list(contexts))
    with autograd.record():
        losses = [(network(part) ** 2).mean() for part in parts]
    autograd.backward(losses)
    optimizer.step(2 * len(contexts))


def exported(tmp_path, **changes) -> tuple[Run, Config, object]:
    configuration = config(tmp_path, **changes)
    network, _ = trained(configuration)
    run = Run(tmp_path)
    run.config.write_text(configuration.to_toml())
    export_model(network, run, configuration, classes=NAMES, top1=0.75)
    return run, configuration, network


def assert_same(outputs: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert outputs.shape == expected.shape
    assert np.abs(outputs - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


def module_outputs(prefix: Path, images) -> np.ndarray:
    symbol, arguments, states = mx.model.load_checkpoint(str(prefix), 0)
    module = mx.mod.Module(symbol, label_names=None)
    module.bind(data_shapes=[("data", images.shape)], for_training=False)
    module.set_params(arguments, states)
    module.forward(namedtuple("Batch", "data")([images]))
    return module.get_outputs()[0].asnumpy()


@pytest.mark.parametrize("network_name", [{}, {"network": "mobilenet0.25", "num_layers": None}])
def test_plain_mxnet_gives_the_same_outputs(tmp_path, network_name):
    run, configuration, network = exported(tmp_path, **network_name)
    images = images_of(configuration)
    expected = network(images).asnumpy()
    block = gluon.SymbolBlock.imports(
        f"{run.model_prefix}-symbol.json", ["data"], f"{run.model_prefix}-0000.params", ctx=mx.cpu()
    )
    for outputs in (block(images).asnumpy(), module_outputs(run.model_prefix, images)):
        assert_same(outputs, expected, 1e-5)
    assert not list(tmp_path.glob("*.unfinished"))


def test_the_card_says_what_a_user_of_the_model_must_know(tmp_path):
    run, configuration, _ = exported(tmp_path, image_shape=(3, 64, 48), num_layers=18)
    card = read_card(run)
    assert card["classes"] == NAMES
    assert card["image_shape"] == [3, 64, 48]
    assert card["mean"] == list(configuration.mean)
    assert (card["network"], card["num_layers"], card["num_classes"]) == ("resnet", 18, 4)
    assert (card["top1"], card["epoch"]) == (0.75, 3)
    assert card["resize"].startswith("scale to cover 73 x 55 (height x width)")


def test_two_devices_export_their_weights_and_the_mean_of_their_statistics(tmp_path):
    contexts = [mx.cpu(0), mx.cpu(1)]
    network, optimizer = trained(config(tmp_path), contexts)
    write_symbol_and_params(network, tmp_path / "model", 1)
    arrays = mx.nd.load(str(tmp_path / "model-0001.params"))
    means = network.features[1].running_mean
    first, second = (array.asnumpy() for array in means.list_data())
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(arrays[f"aux:{means.name}"].asnumpy(), (first + second) / 2, rtol=1e-6)
    weight = network.output.weight
    assert np.array_equal(arrays[f"arg:{weight.name}"].asnumpy(), weight.data(contexts[0]).asnumpy())
    train_step(network, optimizer, config(tmp_path), contexts)  # the network can go on
    assert not np.array_equal(arrays[f"arg:{weight.name}"].asnumpy(), weight.data(contexts[0]).asnumpy())


@needs_bfloat16
def test_mixed_precision_exports_float32_without_casts(tmp_path):
    """In a process of its own: amp changes MXNet for good."""
    program = f"""
import sys; sys.path[:0] = ["tests/trainer", "tests"]
from pathlib import Path
import numpy as np
import trainer.learn
from mxnet.contrib import amp
amp.init(target_dtype="bfloat16")
from test_export import config, exported, images_of
run, configuration, network = exported(Path({str(tmp_path)!r}), precision="bfloat16")
np.save({str(tmp_path / "outputs.npy")!r}, network(images_of(configuration)).astype("float32").asnumpy())
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)
    run = Run(tmp_path)
    assert "amp" not in Path(f"{run.model_prefix}-symbol.json").read_text()
    assert {a.dtype for a in mx.nd.load(f"{run.model_prefix}-0000.params").values()} == {np.float32}
    outputs = load_exported(run)(images_of(config(tmp_path))).asnumpy()
    assert_same(outputs, np.load(tmp_path / "outputs.npy"), 0.02)


@pytest.mark.parametrize("numbers", [1, 1_000_000])
def test_a_full_disk_is_told(numbers):
    with pytest.raises(DiskError, match="/dev/full: cannot be written whole"):
        write_arrays(Path("/dev/full"), {"a": mx.nd.zeros((numbers,))})


def test_a_damaged_model_is_told(tmp_path):
    run, _, _ = exported(tmp_path)
    path = Path(f"{run.model_prefix}-0000.params")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="the exported model cannot be read"):
        load_exported(run)
    run.model_card.write_text("{")
    with pytest.raises(DataError, match="must be the card of a model"):
        read_card(run)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_layers": 18, "image_shape": (3, 40, 56)},
        {"network": "mobilenet0.25", "num_layers": None},
        {"network": "squeezenet1.1", "num_layers": None, "image_shape": (3, 224, 224)},
    ],
    ids=lambda changes: f"{changes.get('network', 'resnet')}-{changes['num_layers']}",
)
def test_onnx_gives_the_same_outputs_for_any_batch(tmp_path, changes):
    run, configuration, network = exported(tmp_path, **changes)
    path = onnx_export.export_onnx(run)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for count in (1, 5):
        images = images_of(configuration, count)
        (outputs,) = session.run(None, {"data": images.asnumpy()})
        assert_same(outputs, network(images).asnumpy(), 1e-4)


def test_onnx_carries_the_card_and_declares_what_it_is(tmp_path):
    run, _, _ = exported(tmp_path)
    path = onnx_export.export_onnx(run)
    model, session = onnx.load(path), onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["batch", 3, 28, 28]
    assert session.get_outputs()[0].shape == ["batch", 4]
    assert model.opset_import[0].version == onnx_export.OPSET
    assert [entry.name for entry in model.graph.input] == ["data"]
    card = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert card == read_card(run)


def test_onnx_that_computes_something_else_is_refused(tmp_path, monkeypatch):
    run, _, _ = exported(tmp_path)
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)
    with pytest.raises(TrainerError, match=r"onnxruntime's outputs must equal MXNet's up to -1, but differ by"):
        onnx_export.export_onnx(run)
    assert not run.model_prefix.with_suffix(".onnx").exists()


def test_onnx_needs_an_exported_model(tmp_path):
    with pytest.raises(ConfigError, match=r"not finished; .* by: ./kit trainer export --run"):
        onnx_export.export_onnx(Run(tmp_path))


def test_without_checkpoints_the_model_stays_and_without_both_it_is_told(tmp_path):
    run, _, _ = exported(tmp_path)
    paths = export_newest_checkpoint(run, start={})
    assert [path.name for path in paths] == ["model-symbol.json", "model-0000.params", "model.json"]
    run.model_card.unlink()
    with pytest.raises(ConfigError, match="--run must be a run with a checkpoint, got .*, which has none"):
        export_newest_checkpoint(run, start={})


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_the_command_exports_the_newest_checkpoint(tiny_recipe):
    run = Run(Path(tiny_recipe["run_directory"]))
    run.directory.mkdir(parents=True)
    run.config.write_text(tomli_w.dumps(tiny_recipe | {"devices": ["cpu(0)", "cpu(1)"], "epochs": 1}))
    early = command("export", "--run", str(run.directory))
    assert early.returncode == 78
    assert "no start in its events" in early.stderr
    assert command("train", "--config", str(run.config)).returncode == 0
    names = ["model-symbol.json", "model-0000.params", "model.json"]
    written = {name: (run.directory / name).read_bytes() for name in names}
    for name in names:
        (run.directory / name).unlink()
    result = command("export", "--run", str(run.directory), "--onnx", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["files"] == [str(run.directory / name) for name in [*names, "model.onnx"]]
    assert json.loads(written["model.json"]) == read_card(run)
    expected = mx.nd.load_frombuffer(written[names[1]])
    again = mx.nd.load(str(run.directory / names[1]))
    assert again.keys() == expected.keys()
    for name, array in again.items():
        np.testing.assert_allclose(array.asnumpy(), expected[name].asnumpy(), rtol=1e-6, atol=1e-7, err_msg=name)
    assert load_exported(run)(mx.nd.ones((1, 3, 28, 28))).shape == (1, 4)
