"""Checkpoints on disk: what counts as whole, which one is the newest, what is kept."""

import errno
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import mxnet as mx
import numpy as np
import pytest
from mxnet.gluon import nn

from trainer import checkpoint_files
from trainer.config import build
from trainer.errors import ConfigError, DiskError
from trainer.learn import checkpoint, snapshot
from trainer.learn.optimizer import counters, make_trainer
from trainer.learn.writer import Writer
from trainer.run import Run

DATA = {"train": {"records": 9}, "val": {"records": 3, "rec_sha256": None}}


def make_training(folder, devices=1):
    """A network that has made one step on each device, its trainer, and a run to save it in."""
    values = {
        "run_directory": str(folder), "data_train": "t.rec", "num_classes": 2, "num_layers": 18, "epochs": 10,
        "batch_size": 6, "base_learning_rate": 0.1, "devices": [f"cpu({number})" for number in range(devices)],
    }  # fmt: skip
    config = build(values, source="test", folder=folder)
    network = nn.HybridSequential()
    network.add(nn.Dense(2, in_units=3), nn.BatchNorm(in_channels=2))
    network.initialize(ctx=[mx.cpu(number) for number in range(devices)])
    trainer = make_trainer(network, config)
    with mx.autograd.record():
        losses = [
            network((number + 1) * mx.nd.arange(6, ctx=mx.cpu(number)).reshape((2, 3))).sum()
            for number in range(devices)
        ]
    mx.autograd.backward(losses)
    trainer.step(2)
    run = Run(folder)

    def save(step, kept=2, still_ours=lambda: True, writer=None, **progress):
        state = {
            "progress": vars(checkpoint.Progress(step=step, **progress)), "counters": counters(trainer), "data": DATA,
            "config": config.model_dump(mode="json"), "versions": {}, "effective": {},
        }  # fmt: skip
        writer = writer or Writer(run, kept, checkpoint.survey(run)[0], still_ours)
        return writer.write(snapshot.take(network, trainer, into={}), state)

    return SimpleNamespace(run=run, config=config, network=network, trainer=trainer, save=save)


@pytest.fixture
def training(tmp_path):
    return make_training(tmp_path)


def names(run):
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_the_newest_are_kept_and_latest_names_the_last(training):
    for step in (1, 2, 3, 10):
        training.save(step)
    assert names(training.run) == ["00000003-0", "00000010-0"]
    assert training.run.latest.read_text() == "00000010-0\n"
    assert checkpoint.newest(training.run).name == "00000010-0"


def test_saving_the_same_step_again_keeps_it(training):
    training.save(5)
    training.save(5)
    assert names(training.run) == ["00000005-0"]
    assert checkpoint.newest(training.run).name == "00000005-0"


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
    assert [line.split(":")[0].rsplit("/", 1)[1] for line in checkpoint.survey(training.run)[1]] == ["00000002-0"]


def test_the_best_in_validation_is_kept_besides_the_newest(training):
    for step, top1, validated in ((1, 0.5, 1), (2, 0.9, 2), (3, 0.9, 2), (4, 0.7, 4), (5, 0.7, 4), (6, 0.8, 6)):
        training.save(step, validated_epochs=step, top1=top1, validated_step=validated, best_top1=0.9)
    assert names(training.run) == ["00000002-2", "00000005-5", "00000006-6"]


def test_latest_may_be_one_behind(training):
    """Its writer was killed after it had given the checkpoint its name."""
    training.save(1)
    before = training.run.latest.read_text()
    training.save(2)
    training.run.latest.write_text(before)
    assert checkpoint.newest(training.run).name == "00000002-0"


def test_what_a_killed_remover_leaves_is_no_checkpoint_and_goes(training, monkeypatch):
    training.save(1)
    monkeypatch.setattr(checkpoint_files.shutil, "rmtree", lambda path, ignore_errors: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint_files.remove(training.run.checkpoints / "00000001-0")
    monkeypatch.undo()
    assert checkpoint.survey(training.run) == ({}, [])
    checkpoint.tidy(training.run)
    assert names(training.run) == []


@pytest.mark.parametrize("fails", ["rename", "unlink", "rmdir"])
def test_what_cannot_be_removed_costs_no_save_and_goes_later(training, monkeypatch, fails):
    """A network disk keeps a file that somebody reads, and with it its directory."""
    writer = Writer(training.run, 2, {}, lambda: True)
    training.save(1, writer=writer)
    training.save(2, writer=writer)
    refuse = {"rename": (Path, "rename"), "unlink": (os, "unlink"), "rmdir": (os, "rmdir")}[fails]
    real = getattr(*refuse)

    def refused(path, *arguments, **more):
        if fails == "rmdir" or "dir_fd" in more or Path(path).name == "00000001-0":
            raise OSError(errno.ENOTEMPTY, "busy")
        return real(path, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(*refuse, refused)
        for step in (3, 4):
            assert training.save(step, writer=writer)["step"] == step
            assert [path.name for path in checkpoint.survey(training.run)[0]][0] == f"{step:08d}-0"
    training.save(5, writer=writer)
    training.save(6, writer=writer)
    assert names(training.run) == ["00000005-0", "00000006-0"]


def test_nothing_is_written_or_removed_once_another_trainer_has_the_run(training):
    """Whatever moment it takes it over: each look at the lease is the last but one that says yes."""
    training.save(1)
    for yes in range(3):
        training.save(5)
        before, looks = names(training.run), [True] * yes
        with pytest.raises(ConfigError, match="one process at a time"):
            training.save(6, kept=1, still_ours=lambda: bool(looks) and looks.pop())  # noqa: B023
        found = [name for name in names(training.run) if not name.endswith(".unfinished")]
        assert found == (before if yes < 2 else [*before, "00000006-0"])
        if yes == 2:
            assert training.run.latest.read_text() == "00000005-0\n"


def test_drafts_of_the_dead_are_removed_and_those_of_the_living_are_not(training):
    ended = subprocess.Popen(["true"])
    ended.wait()
    kept = {f".LATEST.{os.getpid()}.draft", ".somebody's.draft"}
    for name in (*kept, f".LATEST.{ended.pid}.draft", f".model-0000.params.{ended.pid}.draft"):
        (training.run.directory / name).touch()
    checkpoint.tidy(training.run)
    assert {path.name for path in training.run.directory.glob(".*")} == kept


def test_leftovers_and_damaged_ones_go_and_do_not_push_out_good_ones(training):
    training.save(1)
    (training.run.checkpoints / "00000009-0.unfinished").mkdir()
    (training.run.checkpoints / "00000008-0").mkdir()
    (training.run.checkpoints / "of the user").mkdir()
    assert len(checkpoint.survey(training.run)[1]) == 1
    training.save(2)
    assert names(training.run) == ["00000001-0", "00000002-0", "of the user"]
    assert checkpoint.survey(training.run)[1] == []


def test_the_best_is_known_though_one_of_its_data_has_a_checksum_more(training):
    training.save(1, top1=0.9, validated_step=1, validated_epochs=1)
    whole, _ = checkpoint.survey(training.run)
    assert checkpoint.best(whole, DATA["val"] | {"rec_sha256": "ab"}) == training.run.checkpoints / "00000001-1"
    assert checkpoint.best(whole, DATA["val"] | {"records": 4}) is None


def test_a_checkpoint_of_the_version_before_is_refused_in_words(training):
    training.save(1)
    path = training.run.checkpoints / "00000001-0"
    state = {"version": "0.1.0", "progress": {"step": 1}, "config": {"checkpoint_interval_seconds": 300}}
    (path / "state.json").write_text(json.dumps(state))
    checkpoint_files.write_checksums(path)
    with pytest.raises(ConfigError, match=r"00000001-0: must be a checkpoint of version 0.2.0 or later, got .* 0.1.0"):
        checkpoint.newest(training.run)


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


def test_a_latest_that_cannot_be_written_loses_no_checkpoint(training):
    training.run.latest.mkdir()
    (training.run.latest / "x").touch()
    assert training.save(1)["step"] == 1
    assert checkpoint.newest(training.run).name == "00000001-0"


def test_a_place_that_cannot_be_written_is_a_disk_error(training):
    training.run.checkpoints.touch()
    with pytest.raises(DiskError, match="the checkpoint could not be written"):
        training.save(2)


def test_what_is_loaded_is_what_was_saved(training):
    training.save(7)
    before = {name: p.data().asnumpy() for name, p in training.network.collect_params().items()}
    momentum = training.trainer._updaters[0].states[0].asnumpy()
    for parameter in training.network.collect_params().values():
        parameter.set_data(mx.nd.zeros(parameter.shape))
    training.trainer._updaters[0].states[0][:] = 0
    training.trainer._optimizer.num_update = 0
    checkpoint.load(checkpoint.newest(training.run), training.network, training.trainer)
    for name, parameter in training.network.collect_params().items():
        assert (parameter.data().asnumpy() == before[name]).all()
    assert (training.trainer._updaters[0].states[0].asnumpy() == momentum).all()
    assert training.trainer._optimizer.num_update == 1
    assert training.trainer._optimizer._index_update_count[0] == 1


def test_a_snapshot_is_of_its_moment(training):
    """It is only ordered; what training writes after it must not show."""
    arrays = [parameter.data() for parameter in training.network.collect_params().values()]
    before = [array.asnumpy() for array in arrays]
    older = snapshot.take(training.network, training.trainer, into={})
    taken = snapshot.take(training.network, training.trainer, into=older)
    for array in arrays:
        array[:] = 7
    saved = [array.asnumpy() for array in taken["weights.params"].values()]
    assert all((one == other).all() for one, other in zip(sorted(before, key=str), sorted(saved, key=str), strict=True))


def statistics(training):
    return [array.asnumpy() for array in training.network[1].running_mean.list_data()]


@pytest.mark.parametrize(("saved", "now"), [(1, 2), (2, 1), (2, 3), (3, 2), (2, 2)])
def test_statistics_go_to_each_device_or_as_their_mean_to_another_number_of_devices(tmp_path, saved, now):
    before = make_training(tmp_path, saved)
    before.save(1)
    after = make_training(tmp_path, now)
    checkpoint.load(checkpoint.newest(before.run), after.network, after.trainer)
    expected = statistics(before)
    assert len({tuple(mean) for mean in expected}) == saved
    if saved != now:
        expected = [np.mean(expected, axis=0)] * now
    for one, other in zip(statistics(after), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0 if saved == now else 1e-6)


def test_making_the_trainer_does_not_wait_for_the_first_step_to_make_the_devices_equal(tmp_path):
    """Gluon would do so after the first backward pass, and undo the statistics of every device but the first."""
    assert len({tuple(mean) for mean in statistics(make_training(tmp_path, 2))}) == 2
