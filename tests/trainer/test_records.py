import contextlib
import struct
from concurrent.futures import ThreadPoolExecutor

import mxnet as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.framing import MAGIC, BadRecordError, unpack_image
from trainer.data.record_writer import RecordWriter
from trainer.data.records import index_path, open_records
from trainer.errors import DataError

# Payloads in which the magic is likely, at places that are multiples of 4 and at others.
payloads = st.lists(st.sampled_from([MAGIC, MAGIC[:2], b"\0", b"ab", b"abcd", b"\xff" * 9]), max_size=12).map(b"".join)


def write(path, pictures):
    with RecordWriter(path) as writer:
        for key, picture in enumerate(pictures):
            writer.write(key, float(key), picture)
        writer.publish()
    return path


@pytest.fixture
def ten(tmp_path):
    return write(tmp_path / "ten.rec", [b"picture %d" % i * (i + 1) for i in range(10)])


@settings(max_examples=150, deadline=None)
@given(st.lists(payloads, min_size=1, max_size=8))
def test_bytes_are_those_of_mxnets_writer_and_come_back(tmp_path_factory, pictures):
    folder = tmp_path_factory.mktemp("round")
    ours = write(folder / "ours.rec", pictures)
    theirs = mx.recordio.MXIndexedRecordIO(str(folder / "theirs.idx"), str(folder / "theirs.rec"), "w")
    for key, picture in enumerate(pictures):
        theirs.write_idx(key, mx.recordio.pack(mx.recordio.IRHeader(0, float(key), key, 0), picture))
    theirs.close()
    assert ours.read_bytes() == (folder / "theirs.rec").read_bytes()
    assert index_path(ours).read_bytes() == (folder / "theirs.idx").read_bytes()
    records = open_records(ours)
    assert [records.read(i)[1] for i in range(len(records))] == pictures
    assert [records.labels(i).tolist() for i in range(len(records))] == [[float(i)] for i in range(len(pictures))]
    records.close()


def test_a_record_of_several_megabytes_comes_back(tmp_path):
    picture = np.random.default_rng(0).bytes(3_000_001) + MAGIC * 3
    assert open_records(write(tmp_path / "big.rec", [picture, b"next"])).read(0)[1] == picture


def test_vector_labels_of_mxnets_writer(tmp_path):
    theirs = mx.recordio.MXIndexedRecordIO(str(tmp_path / "v.idx"), str(tmp_path / "v.rec"), "w")
    theirs.write_idx(7, mx.recordio.pack(mx.recordio.IRHeader(0, [1.5, 2.0, 3.0], 7, 0), b"picture"))
    theirs.close()
    records = open_records(tmp_path / "v.rec")
    labels, picture = records.read(0)
    assert (labels.tolist(), picture, records.keys.tolist()) == ([1.5, 2.0, 3.0], b"picture", [7])
    assert records.labels(0).tolist() == [1.5, 2.0, 3.0]


def test_records_come_in_the_files_order_whatever_the_indexs(ten):
    lines = index_path(ten).read_text().splitlines()
    index_path(ten).write_text("\r\n".join(reversed(lines)))
    records = open_records(ten)
    assert records.keys.tolist() == list(range(10))
    assert records.read(3)[1] == b"picture 3" * 4


def test_threads_read_at_once(ten):
    records = open_records(ten)
    with ThreadPoolExecutor(4) as pool:
        pictures = list(pool.map(lambda i: records.read(i % 10)[1], range(400)))
    assert pictures == [b"picture %d" % (i % 10) * (i % 10 + 1) for i in range(400)]


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def shift(line_number, by):
    def damage(path):
        index = index_path(path)
        rows = [line.split("\t") for line in index.read_text().splitlines()]
        rows[line_number][1] = str(int(rows[line_number][1]) + by)
        index.write_text("".join("\t".join(row) + "\n" for row in rows))

    return damage


DAMAGES = {
    "no file": (lambda path: path.unlink(), "ten.rec.*cannot be read: No such file"),
    "empty": (lambda path: path.write_bytes(b""), "ten.rec.*is empty"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "ten.rec.*directory"),
    "no index": (lambda path: index_path(path).unlink(), "ten.idx.*No such file.*--rebuild-index"),
    "empty index": (lambda path: index_path(path).write_bytes(b""), "ten.idx.*is empty.*--rebuild-index"),
    "index of words": (lambda path: index_path(path).write_text("0\t0\n1\tx\n"), "ten.idx: line 2 must be a key"),
    "index of one column": (lambda path: index_path(path).write_text("0\n8\n"), "ten.idx: line 1 must be a key"),
    "binary index": (lambda path: index_path(path).write_bytes(bytes(range(256))), "ten.idx: line 1 must be"),
    "blank line": (lambda path: index_path(path).write_text("0\t0\n\n1\t40\n"), "ten.idx: line 2 must be"),
    "offset in a record": (shift(4, 8), r"ten.rec: no record starts at byte \d+, where ten.idx has key 4"),
    "odd offset": (shift(4, 2), "ten.idx: offset .* multiple of 4"),
    "offset beyond": (shift(9, 10_000), "ten.idx: offset .* inside ten.rec"),
    "offset twice": (lambda path: index_path(path).write_text("0\t0\n1\t0\n"), "ten.idx: offset 0 .*given once"),
    "cut in a record": (lambda path: cut(path, path.stat().st_size - 5), "the last record .*not whole.*was cut"),
    "cut to a multiple of 4": (lambda path: cut(path, path.stat().st_size - 40), "the last record .*not whole"),
    "cut at a record": (lambda path: cut(path, open_records(path).offsets[9]), "ten.rec was cut"),
    "stale index": (
        lambda path: index_path(path).write_bytes(b"".join(index_path(path).read_bytes().splitlines(True)[:5])),
        "bytes follow the last record .*older than the file.*--rebuild-index",
    ),
    "manifest of another": (
        lambda path: path.with_suffix(".json").write_text('{"records": 9}'),
        "index names 10 records, the manifest ten.json counts 9",
    ),
    "no manifest": (lambda path: path.with_suffix(".json").write_text("[1]"), "ten.json.*manifest.*remove it"),
    "broken manifest": (lambda path: path.with_suffix(".json").write_text("{"), "ten.json.*cannot be read"),
}


@pytest.mark.parametrize("damage, message", DAMAGES.values(), ids=DAMAGES)
def test_opening_says_what_is_wrong(ten, damage, message):
    damage(ten)
    with pytest.raises(DataError, match=message):
        open_records(ten)


def test_a_manifest_that_agrees_is_welcome(ten):
    ten.with_suffix(".json").write_text('{"records": 10}')
    assert len(open_records(ten)) == 10


@pytest.mark.parametrize(
    "payload, message",
    [
        (b"", "0 bytes, too few"),
        (b"x" * 23, "23 bytes, too few"),
        (struct.pack("<IfQQ", 2**32 - 1, 0, 0, 0), "announces 4294967295 labels"),
        (struct.pack("<IfQQf", 2, 0, 0, 0, 1), "announces 2 labels"),
    ],
)
def test_an_impossible_image_header(payload, message):
    with pytest.raises(BadRecordError, match=message):
        unpack_image(payload)


@pytest.mark.parametrize("kinds", [(1, 1, 3), (1, 0), (2, 3), (3,), (1, 2), (5,)])
def test_parts_out_of_place(tmp_path, kinds):
    path = tmp_path / "a.rec"
    path.write_bytes(b"".join(struct.pack("<4sI", MAGIC, kind << 29 | 32) + bytes(32) for kind in kinds))
    index_path(path).write_text("0\t0\n")
    with pytest.raises(DataError, match="out of place|ends inside"):
        open_records(path)


def test_a_record_with_a_wrong_length_does_not_spoil_its_neighbours(ten):
    records = open_records(ten)
    data = bytearray(ten.read_bytes())
    data[records.offsets[4] + 4 : records.offsets[4] + 8] = struct.pack("<I", 2**29 - 1)
    ten.write_bytes(data)
    records = open_records(ten)
    with pytest.raises(BadRecordError, match="claims 536870911 bytes"):
        records.read(4)
    assert records.read(5)[1] == b"picture 5" * 6


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_file_raises_nothing_but_data_errors(tmp_path_factory, data):
    path = write(tmp_path_factory.mktemp("fuzz") / "f.rec", [b"picture" * n + MAGIC for n in range(6)])
    for file in (path, index_path(path)):
        file.write_bytes(mutated(data, file.read_bytes()))
    try:
        records = open_records(path)
    except DataError:
        return
    for i in range(len(records)):
        with contextlib.suppress(DataError):
            records.read(i)
    records.close()


def mutated(data, content: bytes) -> bytes:
    """Bytes changed, words made huge, pieces taken out or put in, the end cut off."""
    content = bytearray(content)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        kind = data.draw(st.sampled_from(["byte", "word", "remove", "insert", "cut"]))
        size = data.draw(st.sampled_from([1, 4, 8, 60]))
        if kind == "byte":
            content[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
        elif kind == "word":
            start = at // 4 * 4
            content[start : start + 4] = data.draw(st.sampled_from([b"\xff" * 4, MAGIC, b"\xff\xff\xff\x1f"]))
        elif kind == "remove":
            del content[at : at + size]
        elif kind == "insert":
            content[at:at] = data.draw(st.binary(min_size=size, max_size=size))
        else:
            del content[at:]
    return bytes(content)


def test_an_unfinished_file_never_has_the_final_name(tmp_path):
    with pytest.raises(KeyboardInterrupt), RecordWriter(tmp_path / "a.rec") as writer:
        writer.write(0, 0.0, b"picture")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
