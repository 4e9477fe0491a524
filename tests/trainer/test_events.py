"""The log that everything else reads."""

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.observe import events
from trainer.observe.events import JsonLines, event_writer

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)


def test_an_event_is_stamped_and_there_at_once(tmp_path):
    path = tmp_path / "events.jsonl"
    before = time.time()
    event_writer(path)("step", step=3, loss=0.5)
    (event,) = events.read(path)
    assert event.pop("t") == pytest.approx(before, abs=60)
    assert event == {"n": 1, "kind": "step", "step": 3, "loss": 0.5}


def test_a_missing_file_has_no_events(tmp_path):
    assert list(events.read(tmp_path / "none.jsonl")) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_becomes_null_however_deep(tmp_path, value):
    lines = JsonLines(tmp_path / "log")
    lines.write(t=1, loss=value, inner={"list": [1.5, (value,)]})
    text = (tmp_path / "log").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"t": 1, "loss": None, "inner": {"list": [1.5, [None]]}}


@pytest.mark.parametrize("junk", [b'{"t": 1, "ki', b"\xff\xfe", b"[1, 2]", b"7", b"null", b"", b"{}{}"])
def test_lines_that_are_no_object_are_passed_over(tmp_path, junk):
    path = tmp_path / "log"
    path.write_bytes(b'{"t":1}\n' + junk + b'\n{"t":2}\n')
    assert [event["t"] for event in events.read(path)] == [1, 2]


@given(st.lists(OBJECTS, max_size=5), st.data())
def test_a_log_cut_anywhere_loses_its_last_line_only(tmp_path_factory, objects, data):
    path = tmp_path_factory.mktemp("cut") / "log"
    written = JsonLines(path)
    for fields in objects:
        written.write(**{**fields, "t": 1})
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    kept = path.read_bytes().count(b"\n")
    assert list(events.read(path))[:kept] == [{**fields, "t": 1} for fields in objects[:kept]]


@given(OBJECTS, st.binary(max_size=20).filter(lambda junk: b"\n" not in junk))
def test_a_new_writer_does_not_append_to_a_half_line(tmp_path_factory, fields, half):
    path = tmp_path_factory.mktemp("half") / "log"
    path.write_bytes(b'{"t":1}\n{"t":' + half)
    JsonLines(path).write(**{**fields, "t": 2})
    assert list(events.read(path))[-1] == {**fields, "t": 2}


def test_closing_a_log_twice_opened_keeps_all_lines(tmp_path):
    path = tmp_path / "log"
    for number in range(3):
        lines = JsonLines(path)
        lines.write(t=number)
        lines.close()
    assert [event["t"] for event in events.read(path)] == [0, 1, 2]


def test_the_newest_event_is_found_however_long_the_lines_after_it(tmp_path):
    path = tmp_path / "events.jsonl"
    assert events.newest(path) is None
    report = event_writer(path)
    report("step", step=1)
    report("step", step=2)
    report("start", config="x" * 300_000)
    report("bad_record", record="y" * 100_000)
    path.write_bytes(path.read_bytes() + b'{"t":1,"kind":"st')
    assert events.newest(path)["kind"] == "bad_record"
    assert events.newest(path, "start")["n"] == 3
    assert events.newest(path, "step")["step"] == 2
    assert events.newest(path, "step", "start")["kind"] == "start"
    assert events.newest(path, "stop") is None
    event_writer(path)("stop")
    assert events.newest(path)["n"] == 5


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 300)), max_size=8), st.sampled_from([(), ("a",)]))
def test_the_newest_event_is_the_last_that_reading_all_finds(tmp_path_factory, written, kinds):
    path = tmp_path_factory.mktemp("newest") / "log"
    lines = JsonLines(path)
    for number, (kind, size) in enumerate(written):
        lines.write(n=number, kind=kind, text="{" * size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_TAIL_BYTES", 7)
        found = events.newest(path, *kinds)
    wanted = [event for event in events.read(path) if not kinds or event["kind"] in kinds]
    assert found == (wanted[-1] if wanted else None)
