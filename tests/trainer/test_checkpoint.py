"""Checkpoints on disk: what counts as whole, which one is the newest, what is kept."""

from types import SimpleNamespace

import mxnet as mx
import pytest
from mxnet.gluon import nn

from trainer.config import build
from trainer.errors import DiskError
from trainer.learn import checkpoint
from trainer.learn.checkpoint import Progress
from trainer.learn.optimizer import make_trainer
from trainer.run import Run


@pytest.fixture
def training(tmp_path):
    """A network that has made one step, its trainer, and a run to save it in."""
    values = {
        "run_directory": str(tmp_path), "data_train": "t.rec", "num_classes": 2, "num_layers": 18, "epochs": 10,
        "batch_size": 2, "base_learning_rate": 0.1,
    }
    config = build(values, source="test", folder=tmp_path)
    network = nn.HybridSequential()
    network.add(nn.Dense(2, in_units=3), nn.BatchNorm(in_channels=2))
    network.initialize(ctx=[mx.cpu()])
    trainer = make_trainer(network, config)
    with mx.autograd.record():
        loss = network(mx.nd.ones((2, 3))).sum()
    loss.backward()
    trainer.step(2)

    def save(step, config=config):
        return checkpoint.save(Run(tmp_path), config, Progress(step=step), network, trainer)

    return SimpleNamespace(run=Run(tmp_path), config=config, network=network, trainer=trainer, save=save)


def names(run):
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_the_newest_are_kept_and_latest_names_the_last(training):
    for step in (1, 2, 3, 10):
        training.save(step)
    assert names(training.run) == ["00000003-0", "00000010-0"]
    assert training.run.latest.read_text() == "00000010-0\n"
    assert checkpoint.newest(training.run).name == "00000010-0"


def test_saving_the_same_step_again_keeps_it(training):
    first = training.save(5)
    again = training.save(5)
    assert names(training.run) == ["00000005-0"]
    assert first["bytes"] == again["bytes"]


@pytest.mark.parametrize("name", ["weights.params", "optimizer.params", "statistics.params", "state.json"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove", "empty"])
def test_a_damaged_checkpoint_is_passed_over(training, name, harm):
    training.save(1)
    training.save(2)
    path = training.run.checkpoints / "00000002-0" / name
    content = path.read_bytes()
    if harm == "remove":
        path.unlink()
    else:
        half = len(content) // 2
        flipped = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        path.write_bytes({"cut": content[:half], "flip": flipped, "empty": b""}[harm])
    assert checkpoint.newest(training.run).name == "00000001-0"
    assert [line.split(":")[0].rsplit("/", 1)[1] for line in checkpoint.damaged(training.run)] == ["00000002-0"]


def test_leftovers_of_a_killed_writer_do_not_push_out_good_ones(training):
    training.save(1)
    (training.run.checkpoints / "00000009-0.unfinished").mkdir()
    (training.run.checkpoints / "00000008-0").mkdir()
    training.save(2)
    assert names(training.run) == ["00000001-0", "00000002-0", "00000008-0"]
    assert checkpoint.newest(training.run).name == "00000002-0"


@pytest.mark.parametrize("content", [None, b"nonsense\n", b"00000007-0\n", b"", b"\xff\xfe\x00"])
def test_a_wrong_latest_is_no_obstacle(training, content):
    training.save(1)
    training.save(2)
    training.run.latest.unlink()
    if content is not None:
        training.run.latest.write_bytes(content)
    assert checkpoint.newest(training.run).name == "00000002-0"


def test_what_turned_out_bad_is_forgotten(training):
    for step in (1, 2):
        training.save(step)
    checkpoint.forget_from(training.run, 2)
    assert names(training.run) == ["00000001-0"]
    assert training.run.latest.read_text() == "00000001-0\n"
    checkpoint.forget_from(training.run, 0)
    assert names(training.run) == []
    assert not training.run.latest.exists()


def test_a_place_that_cannot_be_written_is_a_disk_error(training):
    training.save(1)
    training.run.latest.unlink()
    training.run.latest.mkdir()
    (training.run.latest / "x").touch()
    with pytest.raises(DiskError, match="the checkpoint could not be written"):
        training.save(2)
    assert "00000001-0" in names(training.run)


def test_what_is_loaded_is_what_was_saved(training):
    training.save(7)
    before = {name: p.data().asnumpy() for name, p in training.network.collect_params().items()}
    momentum = training.trainer._updaters[0].states[0].asnumpy()
    for parameter in training.network.collect_params().values():
        parameter.set_data(mx.nd.zeros(parameter.shape))
    training.trainer._updaters[0].states.clear()
    progress = checkpoint.load(checkpoint.newest(training.run), training.network, training.trainer)
    assert progress.step == 7
    for name, parameter in training.network.collect_params().items():
        assert (parameter.data().asnumpy() == before[name]).all()
    assert (training.trainer._updaters[0].states[0].asnumpy() == momentum).all()
    assert training.trainer._optimizer._index_update_count[0] == 7
