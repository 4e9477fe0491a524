"""The program that reads every block of a volume once."""

import importlib.util
import json
import os
import subprocess
import sys
import threading

import pytest
from playing import ROLES

PROGRAM = ROLES / "data_volume" / "files" / "warm_up.py"
VOLUME = "vol-0123456789abcdef0"


def warm_up(tmp_path, volume=VOLUME):
    progress = tmp_path / "progress.json"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "disk"), volume, str(progress)], capture_output=True, text=True,
        check=True,
    )
    return json.loads(progress.read_text()), done.stdout


@pytest.fixture
def program():
    spec = importlib.util.spec_from_file_location("warm_up", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_block_is_read_once_for_each_volume(tmp_path):
    (tmp_path / "disk").write_bytes(b"x" * (5 << 20) + b"y")
    found, said = warm_up(tmp_path)
    assert (found["bytes_read"], found["finished"]) == ((5 << 20) + 1, True)
    assert "MB/s" in said
    assert warm_up(tmp_path)[1] == f"{VOLUME} is warm\n"
    assert "MB/s" in warm_up(tmp_path, "vol-0fffffff")[1]  # a volume made from a snapshot of the first one


def test_it_continues_where_it_was(tmp_path, program):
    (tmp_path / "disk").write_bytes(b"x" * (5 << 20))
    before = {"volume_id": VOLUME, "bytes_read": 3 << 20, "bytes_total": 5 << 20, "finished": False}
    (tmp_path / "progress.json").write_text(json.dumps(before))
    assert program.load(str(tmp_path / "progress.json"), VOLUME) == before
    assert warm_up(tmp_path)[0]["finished"]


@pytest.fixture
def read_with(program, tmp_path, monkeypatch):
    """`read_with(read)`: a disk of a block for each reader is read by that function; what is noted in the end."""
    disk, noted = tmp_path / "disk", tmp_path / "progress.json"
    disk.write_bytes(bytes(program.READERS * program.READ_BYTES))

    def run(read):
        monkeypatch.setattr(os, "pread", read)
        monkeypatch.setattr(sys, "argv", [str(PROGRAM), str(disk), VOLUME, str(noted)])
        program.main()
        return json.loads(noted.read_text())

    return run


def test_all_readers_wait_for_the_snapshot_at_once(program, read_with):
    """The first read ends when the last one has begun: with fewer at a time none would end."""
    together = threading.Barrier(program.READERS, timeout=20)
    offsets = []

    def read(file, length, offset):
        try:
            together.wait()
        except threading.BrokenBarrierError:
            raise OSError("the others have not begun") from None
        offsets.append(offset)
        return bytes(length)

    assert read_with(read)["finished"]
    assert sorted(offsets) == [number << 20 for number in range(program.READERS)]


def test_what_lies_behind_a_block_that_cannot_be_read_does_not_count(read_with, tmp_path):
    def read(file, length, offset):
        if offset == 5 << 20:
            raise OSError(5, "Input/output error")
        return bytes(length)

    with pytest.raises(OSError, match="Input/output error"):
        read_with(read)
    assert json.loads((tmp_path / "progress.json").read_text())["bytes_read"] <= 5 << 20
