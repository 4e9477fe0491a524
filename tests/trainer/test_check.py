import json
import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from trainer.commands.app import app
from trainer.data.framing import MAGIC
from trainer.data.record_writer import RecordWriter
from trainer.data.records import index_path, open_records
from trainer.data.verify import verify
from trainer.errors import ConfigError, DataError

COUNT = 12


def picture(number):
    image = np.random.default_rng(number).integers(0, 255, (16, 16, 3), np.uint8)
    return simplejpeg.encode_jpeg(image, 90)


def write(path, pictures, keys=None):
    with RecordWriter(path) as writer:
        for number, content in enumerate(pictures):
            writer.write(keys[number] if keys else 100 + number, 1.0, content)
        writer.publish()
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "a.rec", [picture(n) for n in range(COUNT)])


def verified(path, rebuild_index=False, threads=2):
    return verify(path, threads=threads, rebuild_index=rebuild_index, advance=lambda done: None)


def offsets(path):
    return [int(line.split("\t")[1]) for line in index_path(path).read_text().splitlines()]


def overwrite(path, at, content):
    data = bytearray(path.read_bytes())
    data[at : at + len(content)] = content
    path.write_bytes(data)


def test_a_whole_file(path):
    found = verified(path)
    assert found.ok
    assert found.records == COUNT


def test_unusual_pictures_are_all_right(tmp_path):
    image = cv2.resize(np.random.default_rng(0).integers(0, 255, (4, 4, 4), np.uint8), (20, 20))
    pictures = [
        simplejpeg.encode_jpeg(image[..., :1].copy(), 90, "GRAY"),
        simplejpeg.encode_jpeg(image, 90, "CMYK"),
        cv2.imencode(".png", image[..., :3])[1].tobytes(),
        cv2.imencode(".png", image)[1].tobytes(),
        picture(0)[:2] + b"\xff\xfe\x00\x14ab" + MAGIC * 4 + picture(0)[2:],
        picture(0) + MAGIC * 3,
    ]
    found = verified(write(tmp_path / "a.rec", pictures))
    assert found.bad == []
    assert (found.records, found.ok) == (len(pictures), True)


DAMAGES = {
    "cut JPEG": lambda path, at: overwrite(path, at + 660, b"\xff\xd9" * 10),
    "zeroed picture": lambda path, at: overwrite(path, at + 32, bytes(100)),
    "huge length": lambda path, at: overwrite(path, at + 4, b"\xff\xff\xff\x1f"),
    "length of the next record, too": lambda path, at: overwrite(path, at + 4, struct.pack("<I", 1500)),
    "too short a length": lambda path, at: overwrite(path, at + 4, struct.pack("<I", 40)),
    "no length": lambda path, at: overwrite(path, at + 4, bytes(4)),
    "a middle part": lambda path, at: overwrite(path, at + 4, struct.pack("<I", 2 << 29 | 100)),
    "too many labels": lambda path, at: overwrite(path, at + 8, b"\xff" * 4),
}


@pytest.mark.parametrize("number", [0, 5, COUNT - 1])
@pytest.mark.parametrize("damage", [*DAMAGES.values(), lambda path, at: overwrite(path, at, b"abcd")],
                         ids=[*DAMAGES, "no magic"])  # fmt: skip
def test_each_damage_is_found_where_it_is_and_nowhere_else(path, damage, number):
    at = offsets(path)[number]
    damage(path, at)
    found = verified(path)
    assert {bad["key"] for bad in found.bad if bad["key"] is not None} == {100 + number}
    assert found.bad[0]["offset"] == at
    end = [*offsets(path), path.stat().st_size][number + 1]
    assert all(at <= bad["offset"] < end and bad["reason"] for bad in found.bad)
    assert found.problems == []


@pytest.mark.parametrize("cut", [1, 4, 300, 801])
def test_a_cut_file(path, cut):
    path.write_bytes(path.read_bytes()[:-cut])
    found = verified(path)
    assert [bad["key"] for bad in found.bad if bad["offset"] == offsets(path)[-1]] in ([111], [])
    assert not found.ok


def test_bytes_put_in_between_hide_no_later_record(path):
    at = offsets(path)[5]
    data = path.read_bytes()
    path.write_bytes(data[:at] + b"rubbish!" * 3 + data[at:])
    index_path(path).unlink()
    found = verified(path)
    assert found.records == COUNT
    assert [(bad["offset"], bad["reason"]) for bad in found.bad] == [(at, "24 bytes that belong to no record")]


def no_index(path):
    index_path(path).unlink()


def broken_index(path):
    index_path(path).write_text("what?\n")


def short_index(path):
    index_path(path).write_text("".join(index_path(path).read_text().splitlines(True)[:5]))


def foreign_index(path):
    index_path(path).write_text("".join(f"{key}\t{800 * key}\n" for key in range(9)))


INDEXES = {
    "missing": (no_index, "a.idx.*No such file"),
    "broken": (broken_index, "a.idx: line 1"),
    "stale": (short_index, "a.idx: 7 of 12 records are not in it"),
    "foreign": (foreign_index, "a.idx: at 8 of its 9 offsets no record starts"),
}


@pytest.mark.parametrize("damage, message", INDEXES.values(), ids=INDEXES)
def test_a_wrong_index_is_told_and_can_be_made_anew(path, damage, message):
    before = index_path(path).read_bytes()
    damage(path)
    found = verified(path)
    assert found.bad == []
    assert not found.ok
    with pytest.raises(AssertionError, match=message):
        raise AssertionError("\n".join(found.problems))
    assert verified(path, rebuild_index=True).ok
    assert index_path(path).read_bytes() == before
    assert verified(path).ok


def test_a_new_index_leaves_out_what_is_no_record(path):
    overwrite(path, offsets(path)[4], b"abcd")
    overwrite(path, offsets(path)[7] + 4, b"\xff\xff\xff\x1f")
    assert not verified(path, rebuild_index=True).ok
    assert open_records(path).keys.tolist() == [key for key in range(100, 112) if key not in (104, 107)]


def test_ids_that_repeat_become_places(tmp_path):
    path = write(tmp_path / "a.rec", [picture(n) for n in range(4)], keys=[7, 7, 8, 9])
    no_index(path)
    assert verified(path, rebuild_index=True).ok
    assert open_records(path).keys.tolist() == [0, 1, 2, 3]


def test_a_manifest_that_counts_otherwise(path):
    path.with_suffix(".json").write_text('{"records": 13}')
    assert "holds 12 records, its manifest counts 13" in verified(path).problems[0]


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 5000, b"garbage " * 2000, MAGIC * 500, MAGIC + b"\xff" * 4])
def test_what_is_no_record_file(tmp_path, content):
    (tmp_path / "a.rec").write_bytes(content)
    (tmp_path / "a.idx").write_bytes(content)
    assert not verified(tmp_path / "a.rec").ok
    assert not verified(tmp_path / "a.rec", rebuild_index=True).ok


def test_no_file_and_a_folder(tmp_path):
    for path in (tmp_path, tmp_path / "no.rec"):
        with pytest.raises(DataError, match="must be a RecordIO file"):
            verified(path)


NEW_BYTES = st.sampled_from([b"", MAGIC, b"\xff\xff\xff\x1f", b"\0" * 40, b"\xff"])


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_damage_crashes_it_and_whole_records_are_counted_whole(tmp_path_factory, data):
    path = write(tmp_path_factory.mktemp("fuzz") / "f.rec", [picture(n) for n in range(4)])
    for file in (path, index_path(path)):
        content = bytearray(file.read_bytes())
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(content))) // data.draw(st.sampled_from([1, 4])) * 4
            new = data.draw(NEW_BYTES | st.binary(max_size=9))
            content[at : at + data.draw(st.sampled_from([0, len(new), 800]))] = new
        file.write_bytes(content)
    found = verified(path)
    assert len(found.bad) == len({bad["offset"] for bad in found.bad})
    rebuilt = verified(path, rebuild_index=True)
    assert {bad["offset"] for bad in rebuilt.bad} == {bad["offset"] for bad in found.bad}
    if rebuilt.ok:
        assert len(open_records(path)) == rebuilt.records


def test_threads_change_nothing(path):
    overwrite(path, offsets(path)[3] + 40, bytes(200))
    assert verified(path, threads=1).bad == verified(path, threads=4).bad


def command(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


def test_the_command(path):
    assert command(path).exit_code == 0
    result = command(path, "--json")
    assert json.loads(result.stdout) == {"records": COUNT, "bad": [], "ok": True, "problems": []}
    at = offsets(path)[3]
    overwrite(path, at + 32, bytes(100))
    result = command(path, "--json")
    assert result.exit_code == 66
    found = json.loads(result.stdout)
    assert (found["ok"], found["bad"][0]["key"], found["bad"][0]["offset"]) == (False, 103, at)
    assert f"key 103 at byte {at}" in command(path).stdout


def test_the_command_makes_an_index(path):
    index_path(path).unlink()
    assert command(path).exit_code == 66
    assert command(path, "--rebuild-index").exit_code == 0
    assert command(path).exit_code == 0
    assert not [file for file in Path(path.parent).iterdir() if "partial" in file.name]


def test_a_clean_copy_holds_the_whole_records_byte_for_byte(path, tmp_path):
    places, before = offsets(path), path.read_bytes()
    overwrite(path, places[3] + 32, b"\0" * 4)
    path.write_bytes(path.read_bytes()[:-20])
    copy = tmp_path / "clean.rec"
    ended = CliRunner().invoke(app, ["check", str(path), "--clean-copy", str(copy)])
    assert ended.exit_code == 66
    assert copy.read_bytes() == before[: places[3]] + before[places[4] : places[11]]
    records = open_records(copy)
    assert records.keys.tolist() == [100, 101, 102, *range(104, 111)]
    assert verified(copy).ok


def test_a_clean_copy_of_nothing_or_onto_the_file_itself_is_refused(path, tmp_path):
    refused = CliRunner().invoke(app, ["check", str(path), "--clean-copy", str(path)])
    assert isinstance(refused.exception, ConfigError)
    junk = tmp_path / "junk.rec"
    junk.write_bytes(b"junk" * 9)
    empty = CliRunner().invoke(app, ["check", str(junk), "--clean-copy", str(tmp_path / "c.rec")])
    assert isinstance(empty.exception, DataError)
    assert not list(tmp_path.glob("c.*"))
