"""MXNet's iterator as input_engine "mxnet", and what the kit's loader does better."""

from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from tiny_data import PIXELS

from trainer.data import mxnet_engine
from trainer.data.loader import TrainLoader
from trainer.data.mxnet_engine import MxnetLoader, effective_threads
from trainer.data.records import open_records
from trainer.errors import ConfigError


@pytest.fixture
def records(tiny_data):
    with closing(open_records(tiny_data["val"])) as records:
        yield records


def arguments(**changes):
    return {
        "batch_size": 9, "image_shape": (3, PIXELS, PIXELS), "mean": (100, 90, 80), "std": (60, 50, 40),
        "augmentation": "none", "seed": 3, "threads": 4,
    } | changes  # fmt: skip


def take(records, count, at=(0, 0), **changes):
    return list(islice(MxnetLoader(records, **arguments(**changes)).at(*at), count))


@pytest.mark.parametrize("batch_size", [9, 42, 64])
def test_each_record_comes_once_an_epoch_and_batches_straddle(records, batch_size):
    batches = take(records, 3 * 42 // batch_size + 1, batch_size=batch_size)
    assert [(b.epoch, b.position) for b in batches] == [divmod(batch_size * k, 42) for k in range(len(batches))]
    assert {b.images.shape for b in batches} == {(batch_size, 3, PIXELS, PIXELS)}
    images = np.concatenate([b.images for b in batches])
    epochs = [{image.tobytes() for image in images[42 * e : 42 * e + 42]} for e in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    assert len(epochs[0]) == 42


def test_orders_change_with_epoch_and_seed_and_come_again(records):
    first = take(records, 5)
    labels = [np.concatenate([b.labels for b in batches]).tolist() for batches in (first, take(records, 5))]
    assert labels[0] == labels[1]
    assert labels[0] != np.concatenate([b.labels for b in take(records, 5, seed=4)]).tolist()
    assert labels[0] != np.concatenate([b.labels for b in take(records, 5, at=(1, 0))]).tolist()


def test_a_start_inside_an_epoch_gives_the_rest_of_it(records):
    batches = take(records, 3, at=(2, 30))
    assert [(b.epoch, b.position) for b in batches] == [(2, 30), (2, 39), (3, 6)]


def test_pixels_are_the_kits(records):
    ours = TrainLoader(records, **arguments())
    with closing(ours):
        kits = {round(float(image.mean()), 1) for batch in islice(ours.at(0, 0), 14) for image in batch.images}
    theirs = [round(float(image.mean()), 1) for batch in take(records, 14) for image in batch.images]
    near = sum(any(abs(mean - other) < 0.11 for other in kits) for mean in theirs)
    assert near == len(theirs)


@pytest.mark.parametrize("asked, processors, got", [(32, 64, 32), (32, 8, 4), (4, 2, 1), (1, 1, 1), (2, 64, 2)])
def test_the_thread_count_is_the_true_one(monkeypatch, asked, processors, got):
    monkeypatch.setattr(mxnet_engine.os, "sched_getaffinity", lambda _: set(range(processors)))
    assert effective_threads(asked) == got


def test_limits_are_told_and_impossible_requests_refused(records):
    told = []
    MxnetLoader(records, **arguments(), report=lambda kind, **fields: told.append((kind, fields["limits"])))
    assert told[0][0] == "engine"
    assert "damaged" in told[0][1]
    with pytest.raises(ConfigError, match="num_examples must be at most 42"):
        MxnetLoader(records, **arguments(num_examples=43))
    with pytest.raises(ConfigError, match="take .* MB of memory"):
        MxnetLoader(records, **arguments(image_shape=(3, 200_000, 200_000)))
