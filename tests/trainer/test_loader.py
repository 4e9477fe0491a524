import os
import threading
import time
from contextlib import closing
from itertools import islice

import cv2
import mxnet as mx
import numpy as np
import pytest
import simplejpeg

from trainer.data.augment import AUGMENTATIONS, epoch_order, random_numbers, show
from trainer.data.decode import decode
from trainer.data.framing import BadRecordError
from trainer.data.labels import check_labels
from trainer.data.loader import TrainLoader, validation_batches
from trainer.data.record_writer import RecordWriter
from trainer.data.records import open_records
from trainer.errors import ConfigError, DataError

MEAN, STD = (120.0, 110.0, 100.0), (60.0, 50.0, 40.0)
COUNT = 53
LEVEL = 1.01 / min(STD)  # by how much the decoders' pixels may differ


def picture(number):
    image = np.random.default_rng(number).integers(0, 255, (6, 8, 3), np.uint8)
    return simplejpeg.encode_jpeg(cv2.resize(image, (40, 30)), 95)


def write(path, pictures, first_key=0):
    with RecordWriter(path) as writer:
        for number, content in enumerate(pictures):
            writer.write(first_key + number, float(number), content)
        writer.publish()
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "train.rec", [picture(n) for n in range(COUNT)])


@pytest.fixture
def records(path):
    with closing(open_records(path)) as records:
        yield records


def loader(records, **changes):
    values = {
        "batch_size": 10, "image_shape": (3, 24, 24), "mean": MEAN, "std": STD, "augmentation": "imagenet",
        "seed": 5, "threads": 2,
    } | changes  # fmt: skip
    return closing(TrainLoader(records, **values))


def take(records, count, at=(0, 0), **changes):
    with loader(records, **changes) as made:
        return list(islice(made.at(*at), count))


def validate(records, **changes):
    values = {"batch_size": 10, "image_shape": (3, 24, 24), "mean": MEAN, "std": STD, "threads": 2} | changes
    return list(validation_batches(records, **values))


def shown(augmentation, number, numbers=None):
    image = decode(picture(number))
    views = AUGMENTATIONS[augmentation](np.array([image.shape[:2]]), 24, 24, numbers)
    return show(image, views, 0, 24, 24)


def normalised(image):
    return ((image.astype(np.float64) - MEAN) / STD).transpose(2, 0, 1)


def stream(batches):
    return np.concatenate([b.images for b in batches]), np.concatenate([b.labels for b in batches])


def same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(stream(left), stream(right), strict=True))


def test_every_record_once_an_epoch_and_batches_straddle(records):
    _, labels = stream(take(records, 16))
    for epoch in range(3):
        seen = labels[epoch * COUNT : (epoch + 1) * COUNT]
        assert sorted(seen) == list(range(COUNT))
        assert seen.tolist() == epoch_order(COUNT, 5, epoch).tolist()


def test_batches_say_where_they_begin(records):
    batches = take(records, 12)
    assert [(b.epoch, b.position) for b in batches] == [divmod(10 * k, COUNT) for k in range(12)]
    assert {b.images.shape for b in batches} == {(10, 3, 24, 24)}
    assert {b.images.dtype for b in batches} == {b.labels.dtype for b in batches} == {np.dtype(np.float32)}


@pytest.mark.parametrize("augmentation", ["imagenet", "crop", "pad", "none"])
def test_threads_and_batch_size_change_nothing(records, augmentation):
    reference = take(records, 12, augmentation=augmentation)
    assert same(reference, take(records, 12, augmentation=augmentation, threads=5))
    assert same(reference, take(records, 4, augmentation=augmentation, batch_size=30, threads=1))
    assert same(reference, take(records, 1, augmentation=augmentation, batch_size=120))


@pytest.mark.parametrize("skipped", [1, 5, 6, 11])
def test_going_on_anywhere_is_as_if_never_stopped(records, skipped):
    whole = take(records, 14)
    assert same(whole[skipped:], take(records, 14 - skipped, at=(whole[skipped].epoch, whole[skipped].position)))


def test_the_end_of_an_epoch_is_the_start_of_the_next(records):
    assert same(take(records, 3, at=(1, COUNT)), take(records, 3, at=(2, 0)))
    assert take(records, 1, at=(1, COUNT))[0].epoch == 2


def test_seeds_and_epochs_differ(records):
    first = take(records, 1)
    assert not same(first, take(records, 1, seed=6))
    assert not same(first, take(records, 1, at=(1, 0)))


def test_pixels_are_the_normalised_crop(records):
    batch = take(records, 1, augmentation="crop", crop_only=False)[0]
    numbers = random_numbers(5, 0, np.arange(10))
    for row, i in enumerate(epoch_order(COUNT, 5, 0)[:10]):
        assert np.abs(batch.images[row] - normalised(shown("crop", i, numbers[row : row + 1]))).max() < 1e-5


@pytest.mark.parametrize("augmentation", ["imagenet", "crop", "pad", "none"])
def test_both_decoders_show_the_same(records, augmentation):
    crops, whole = (take(records, 12, augmentation=augmentation, crop_only=only) for only in (True, False))
    most = LEVEL * (3 if augmentation == "imagenet" else 1)  # stronger colours make differences larger
    assert np.abs(stream(crops)[0] - stream(whole)[0]).max() < most
    assert np.array_equal(stream(crops)[1], stream(whole)[1])


@pytest.mark.parametrize("crop_only", [True, False], ids=["crops", "whole"])
def test_bytes_are_the_levels_that_floats_are_made_of(records, crop_only):
    levels, floats = (
        take(records, 3, augmentation="crop", dtype=dtype, crop_only=crop_only) for dtype in ("uint8", "float32")
    )
    assert {batch.images.dtype for batch in levels} == {np.dtype(np.uint8)}
    unnormalised = stream(floats)[0] * np.reshape(STD, (3, 1, 1)) + np.reshape(MEAN, (3, 1, 1))
    assert np.abs(unnormalised - stream(levels)[0]).max() <= 0.501


@pytest.mark.parametrize("parts, batch_size", [(2, 10), (3, 7), (5, 30)])
def test_parts_share_the_stream_of_one(records, parts, batch_size):
    whole = take(records, 6, batch_size=parts * batch_size)
    shares = [take(records, 6, batch_size=batch_size, part=(index, parts)) for index in range(parts)]
    assert same(whole, [batch for step in zip(*shares, strict=True) for batch in step])
    at = (whole[4].epoch, whole[4].position)
    for index, share in enumerate(shares):
        assert same(share[4:], take(records, 2, at=at, batch_size=batch_size, part=(index, parts)))


def test_validation_sees_each_record_once_in_order(records):
    batches = validate(records)
    assert [len(b.labels) for b in batches] == [10] * 5 + [3]
    assert [b.position for b in batches] == [0, 10, 20, 30, 40, 50]
    images, labels = stream(batches)
    assert labels.tolist() == list(range(COUNT))
    for i in (0, 17, 52):
        assert np.abs(images[i] - normalised(shown("none", i))).max() < LEVEL
    assert same(batches, validate(records, batch_size=100, threads=1))


def test_an_epoch_may_be_shorter_than_the_file(records):
    _, labels = stream(take(records, 4, num_examples=20))
    assert len(set(labels[:20])) == len(set(labels[20:])) == 20
    assert set(labels[:20]) != set(labels[20:])
    with loader(records, num_examples=20) as made:
        assert made.examples == 20
    with pytest.raises(ConfigError, match="num_examples must be at most 53, the records of .*train.rec, got 54"):
        take(records, 1, num_examples=COUNT + 1)


def test_a_record_looks_different_in_each_epoch(tmp_path):
    batch = take(open_records(write(tmp_path / "one.rec", [picture(0)])), 1, batch_size=4)[0]
    assert len({image.tobytes() for image in batch.images}) == 4


def test_a_batch_may_hold_several_epochs(tmp_path):
    records = open_records(write(tmp_path / "few.rec", [picture(n) for n in range(3)]))
    labels = take(records, 1, batch_size=8)[0].labels.tolist()
    assert sorted(labels[:3]) == sorted(labels[3:6]) == [0, 1, 2]


@pytest.mark.parametrize("hold", [lambda batch: batch, lambda batch: batch.images[3:5, 1]], ids=["batch", "part"])
def test_what_is_held_stays_as_it_is_and_other_memory_is_used_again(records, hold):
    with loader(records) as made:
        batches = made.at(0, 0)
        held = hold(next(batches))
        pixels = getattr(held, "images", held)
        copy = pixels.copy()
        places = {next(batches).images.__array_interface__["data"][0] for _ in range(12)}
        assert np.array_equal(pixels, copy)
        assert len(places) <= 5


def damaged(path, count, bad, how=lambda content: content[: len(content) // 2]):
    pictures = [how(picture(n)) if n in bad else picture(n) for n in range(count)]
    return open_records(write(path, pictures, first_key=1000))


DAMAGES = {"cut": lambda content: content[: len(content) // 2], "empty": lambda _: b"", "words": lambda _: b"words"}


@pytest.mark.parametrize("crop_only", [True, False], ids=["crops", "whole"])
@pytest.mark.parametrize("how", DAMAGES.values(), ids=DAMAGES)
def test_a_bad_record_is_replaced_by_the_next_good_one_and_told_once(tmp_path, how, crop_only):
    told = []
    records = damaged(tmp_path / "bad.rec", 30, {7}, how)
    batches = take(records, 9, report=lambda kind, **fields: told.append((kind, fields)), crop_only=crop_only)
    _, labels = stream(batches)
    for epoch in range(3):
        order = epoch_order(30, 5, epoch).tolist()
        place = order.index(7)
        expected = order[:place] + [order[(place + 1) % 30]] + order[place + 1 :]
        assert labels[epoch * 30 : epoch * 30 + 30].tolist() == expected
    assert len(told) == 1
    kind, fields = told[0]
    assert (kind, fields["key"], fields["offset"]) == ("bad_record", 1007, records.offsets[7])
    assert fields["reason"]
    assert same(batches, take(records, 3, batch_size=30, threads=1, crop_only=crop_only))


def test_too_many_bad_records_end_it_with_their_list(tmp_path):
    records = damaged(tmp_path / "bad.rec", 30, {7, 8})
    with pytest.raises(DataError, match="(?s)bad.rec: 2 of 30 records.*key 1007 at byte .*Premature end.*key 1008"):
        take(records, 9)


def test_a_bad_share_below_the_limit_goes_on(tmp_path):
    tiny = simplejpeg.encode_jpeg(np.zeros((4, 4, 3), np.uint8))
    pictures = [tiny if n not in (5, 600, 2999) else b"bad" for n in range(3000)]
    records, told = open_records(write(tmp_path / "many.rec", pictures)), []
    batches = take(records, 10, batch_size=300, image_shape=(3, 4, 4), report=lambda kind, **f: told.append(f["key"]))
    assert len(batches) == 10
    assert sorted(told) == [5, 600, 2999]


def test_a_file_of_one_bad_record_is_no_endless_search(tmp_path):
    records = damaged(tmp_path / "one.rec", 1, {0})
    with pytest.raises(DataError, match="1 of 1 records are damaged"):
        take(records, 1)


def test_validation_does_not_pass_over_a_bad_record(tmp_path):
    records = damaged(tmp_path / "bad.rec", 30, {17})
    with pytest.raises(DataError, match="key 1017 at byte .* is damaged .*Premature end.*every record"):
        validate(records)


def test_a_record_with_other_labels_than_the_first_is_bad(tmp_path):
    theirs = mx.recordio.MXIndexedRecordIO(str(tmp_path / "v.idx"), str(tmp_path / "v.rec"), "w")
    for key, label in enumerate([[1.0, 2.0], [3.0, 4.0], 5.0]):
        theirs.write_idx(key, mx.recordio.pack(mx.recordio.IRHeader(0, label, key, 0), picture(key)))
    theirs.close()
    records = open_records(tmp_path / "v.rec")
    with pytest.raises(DataError, match="has 1 labels, the first of the file 2"):
        validate(records)
    assert {tuple(row) for row in take(records, 1)[0].labels} == {(1.0, 2.0), (3.0, 4.0)}


def decoders():
    return [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


def test_closing_ends_the_threads(records):
    with loader(records) as made:
        batches = made.at(0, 0)
        next(batches)
        assert decoders()
        batches.close()
    assert not decoders()
    validation = validation_batches(records, batch_size=10, image_shape=(3, 24, 24), mean=MEAN, std=STD, threads=2)
    next(validation)
    assert decoders()
    validation.close()
    assert not decoders()


class Watched:
    """The same file, with something done before each read."""

    def __init__(self, records, before):
        self._records, self._before = records, before

    def __getattr__(self, name):
        return getattr(self._records, name)

    def __len__(self):
        return len(self._records)

    def read(self, i):
        self._before(i)
        return self._records.read(i)

    def sources(self, some):
        for i in some:
            self._before(i)
        return self._records.sources(some)


def test_only_a_few_batches_are_made_ahead(records):
    read = []
    with loader(Watched(records, read.append), crop_only=False) as made:
        batches = made.at(0, 0)
        next(batches)
        until = time.monotonic() + 5
        while len(set(read)) < 30 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        assert len(set(read)) == 30


def test_a_disk_that_never_answers_is_told_of_and_holds_up_neither_stop_nor_end(records, monkeypatch):
    monkeypatch.setattr("trainer.data.loader._TOLD_SECONDS", 0.5)
    monkeypatch.setattr("trainer.data.workers._CLOSE_SECONDS", 0.2)
    told, never = [], threading.Event()
    watched = Watched(records, lambda i: never.wait())
    with loader(watched, report=lambda kind, **f: told.append((kind, f)), crop_only=False) as made:
        assert next(made.at(0, 0, stop=lambda: len(told) == 2), None) is None
    never.set()
    assert [kind for kind, _ in told] == ["data_wait"] * 2
    assert told[0][1]["path"] == str(records.path)
    assert 0.5 <= told[0][1]["seconds"] < told[1][1]["seconds"]


def test_a_disk_that_never_answers_does_not_hold_up_a_stop_in_validation(records, monkeypatch):
    monkeypatch.setattr("trainer.data.loader._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("trainer.data.workers._CLOSE_SECONDS", 0.2)
    never, taken = threading.Event(), []
    watched = Watched(records, lambda i: i < 10 or never.wait())
    for batch in validation_batches(
        watched, batch_size=10, image_shape=(3, 24, 24), mean=MEAN, std=STD, threads=2, stop=lambda: bool(taken)
    ):
        taken.append(batch)
    never.set()
    assert len(taken) == 1


def test_a_failing_disk_is_named_with_file_and_place(records):
    os.close(records._descriptor)
    records._descriptor = os.open(records.path, os.O_WRONLY)
    with pytest.raises(DataError, match="train.rec: reading at byte 0 failed: Bad file descriptor"):
        records.labels(0)
    with pytest.raises(BadRecordError, match="reading .*train.rec at byte 0 failed: Bad file descriptor"):
        records.read(0)


def test_batches_that_no_memory_holds_are_refused_with_both_numbers(records):
    with pytest.raises(ConfigError, match=r"batch_size = 10: .* take 58,800,000 MB of memory, but [\d,]+ MB are free"):
        take(records, 1, image_shape=(3, 350_000, 350_000))
    with loader(records, batch_size=8, dtype="uint8") as made:
        assert made.memory_bytes == 4 * 8 * 3 * 24 * 24


def labelled(path, labels):
    theirs = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for key, label in enumerate(labels):
        theirs.write_idx(key, mx.recordio.pack(mx.recordio.IRHeader(0, label, key, 0), b"picture"))
    theirs.close()
    return open_records(path)


@pytest.mark.parametrize(
    "labels, label_width, message",
    [
        ([0.0, 1.0, 2.0], 1, "key 2 at byte .* has label 2, but num_classes is 2"),
        ([0.0, -1.0], 1, "has label -1"),
        ([0.5], 1, "has label 0.5, .* whole numbers from 0 to 1"),
        ([float("nan")], 1, "has label nan"),
        ([float("inf")], 1, "has label inf"),
        ([0.0], 2, "holds 1 labels, but label_width is 2"),
        ([[0.0, 1.0]], 1, "holds 2 labels, but label_width is 1"),
        ([[0.0, 1.0], [3.0, 1.0]], 2, "key 1 .* has label 3, 1"),
    ],
)
def test_labels_that_do_not_fit_are_named(tmp_path, labels, label_width, message):
    with pytest.raises(DataError, match=message):
        check_labels(labelled(tmp_path / "l.rec", labels), label_width, 2)


def test_labels_that_fit(tmp_path):
    check_labels(labelled(tmp_path / "a.rec", [0.0, 1.0]), 1, 2)
    check_labels(labelled(tmp_path / "b.rec", [[1.0, 7.0, 0.5]]), 3, 2)  # only the first is the class


@pytest.mark.parametrize("word", [b"\3\0\0\0", b"\xff" * 4])
def test_damaged_records_are_left_to_the_loader(tmp_path, word):
    path = write(tmp_path / "a.rec", [picture(0), picture(1)])
    path.write_bytes(path.read_bytes()[:4] + word + path.read_bytes()[8:])
    records = open_records(path)
    check_labels(records, 1, 2)
    assert take(records, 1, batch_size=4)[0].labels.tolist() == [1.0] * 4
