"""A disk that fills up: training goes on, what was saved stays, and what was lost is told."""

import os
import resource
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from training import of_kind, start, train, write_config

from trainer import lease
from trainer.commands.console import describe
from trainer.errors import DiskError
from trainer.learn import checkpoint
from trainer.observe import events
from trainer.observe.events import JsonLines, event_writer
from trainer.run import Run

# A checkpoint of the small network has 0.6 MB, and 1 MB must be left besides.
DISK_MB = 4


@pytest.fixture
def small_disk(tmp_path):
    """The folder of a file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", folder]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


class Filler:
    """A file that takes all the space there is on a small disk."""

    def __init__(self, folder: Path):
        self._path = folder / "filler"

    def fill(self) -> None:
        with open(self._path, "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue

    def free(self) -> None:
        self._path.unlink(missing_ok=True)


class Limit:
    """Keeps this process's files from growing, on whatever disk and for whatever user; overwriting the lease works."""

    def __init__(self):
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, size: int = 600) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, self._before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@pytest.fixture(params=["a small disk", "a limit"])
def disk(request, tmp_path):
    """(folder, what fills it)"""
    if request.param == "a limit":
        limit = Limit()
        yield tmp_path, limit
        limit.free()
    else:
        folder = request.getfixturevalue("small_disk")
        yield folder, Filler(folder)


@contextmanager
def largest_file(size: int):
    """Within the block no file of this process grows beyond that; root may not write more, either."""
    limit = Limit()
    limit.fill(size)
    try:
        yield
    finally:
        limit.free()


def whole(run: Run) -> list[str]:
    found, damaged = checkpoint.survey(run)
    assert damaged == []
    return [path.name for path in found]


def test_training_outlives_a_full_disk_and_saves_again_when_there_is_space(tiny_recipe, disk):
    (folder, filler), kinds, kept = disk, [], []
    run = Run(folder / "run")
    recipe = tiny_recipe | {
        "run_directory": str(run.directory), "checkpoint_interval": 0.02, "epochs": 8, "display_steps": 1
    }  # fmt: skip

    def fill_then_free(kind, **_):
        kinds.append(kind)
        if kind == "checkpoint" and kinds.count(kind) == 2:
            filler.fill()
            kept.append(whole(run))
        elif kind == "checkpoint_failed" and kinds[kinds.index(kind) :].count("step") > 30:
            kept.append(whole(run))
            filler.free()

    assert train(recipe, report=fill_then_free) == "finished"
    assert kept[0] == kept[1]  # nothing was removed while nothing could be written
    first_failure = kinds.index("checkpoint_failed")
    assert "checkpoint" in kinds[first_failure:]
    assert whole(run)[0] == "00000080-8"
    told = list(events.read(run.events))
    lost = sum(event.get("lost", 0) for event in told)
    assert lost > 0
    assert told[-1]["n"] == len(told) + lost == len(kinds)


def test_a_last_checkpoint_that_cannot_be_written_ends_with_what_stays(tiny_recipe, disk):
    folder, filler = disk
    run = Run(folder / "run")
    recipe = tiny_recipe | {"run_directory": str(run.directory), "epochs": 1}
    train(recipe, until_step=4)
    filler.fill()
    what = r"00000006-0.*(its disk has 0.0 MB free|cannot be written whole).*; .*00000004-0 stays"
    with pytest.raises(DiskError, match=what) as error:
        train(recipe, until_step=6)
    filler.free()
    assert error.value.exit_code == 74
    assert whole(run) == ["00000004-0"]
    assert train(recipe) == "finished"


def test_a_full_disk_after_the_last_checkpoint_is_no_failure(tiny_recipe, small_disk):
    """All is saved: what lies beside it (report, crash.txt) is told, and the exit code is 0."""
    run = write_config(tiny_recipe, run_directory=str(small_disk / "run"), epochs=1)
    assert start(run, "--until-step", "9", stdout=subprocess.DEVNULL).wait(timeout=120) == 0
    Filler(small_disk).fill()
    process = start(run, "--until-step", "9", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    printed, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "cannot write the report" in said
    assert "python -m trainer report --run run" in said
    assert "steps: 9 of 10" in printed


def test_models_of_epochs_that_cannot_be_written_do_not_end_training(tiny_recipe, small_disk):
    Filler(small_disk).fill()
    assert train(tiny_recipe, model_prefix=str(small_disk / "model")) == "finished"
    failed = of_kind(Run(Path(tiny_recipe["run_directory"])), "export_failed")
    assert [event["epoch"] for event in failed] == [1, 2]
    assert describe(failed[0]).startswith("the model of epoch 1 could not be written, training goes on: ")


@pytest.mark.parametrize("size", [0, 10_000, 200_000])
def test_a_write_that_fails_in_the_middle_leaves_the_others_as_they_are(tiny_recipe, size):
    run = Run(Path(tiny_recipe["run_directory"]))
    train(tiny_recipe, until_step=4)
    failed = []

    def report(kind, **fields):
        if kind == "checkpoint_failed":
            failed.append(fields["reason"])

    with largest_file(size), pytest.raises(DiskError, match="00000004-0 stays"):
        train(tiny_recipe, until_step=6, report=report)
    assert len(failed) == 1
    assert "00000006-0: the checkpoint could not be written" in failed[0]
    assert sorted(path.name for path in run.checkpoints.iterdir()) == whole(run) == ["00000004-0"]
    assert train(tiny_recipe) == "finished"


def test_events_that_cannot_be_written_are_counted_and_half_lines_ended(tmp_path):
    path = tmp_path / "events.jsonl"
    report = event_writer(path)
    report("step", step=1)
    with largest_file(os.path.getsize(path) + 10):
        for step in (2, 3, 4):
            report("step", step=step)  # of the first of them, 10 bytes fit
    report("step", step=5)
    report("step", step=6)
    assert path.read_bytes().count(b"\n") == 4
    assert [(event["n"], event["step"], event.get("lost")) for event in events.read(path)] == [
        (1, 1, None), (5, 5, 3), (6, 6, None)
    ]  # fmt: skip


def test_a_device_without_space_is_a_disk_error():
    with pytest.raises(DiskError, match="No space left on device"):
        JsonLines(Path("/dev/full")).write(step=1)


def test_numbers_go_on_after_a_half_line(tmp_path):
    path = tmp_path / "events.jsonl"
    event_writer(path)("start")
    with open(path, "ab") as file:
        file.write(b'{"t":1,"n":2,"ki')
    event_writer(path)("stop")
    assert [event["n"] for event in events.read(path)] == [1, 2]


def test_an_old_log_without_numbers_counts_its_lines(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"t":1,"kind":"start"}\n{"t":2,"kind":"stop"}\n')
    event_writer(path)("start")
    assert [event.get("n") for event in events.read(path)] == [None, None, 3]


def test_checkpoints_failed_are_in_the_log(tiny_recipe):
    run = Run(Path(tiny_recipe["run_directory"]))
    train(tiny_recipe, until_step=2)
    with largest_file(10_000), pytest.raises(DiskError):
        train(tiny_recipe, until_step=3)
    (failed,) = of_kind(run, "checkpoint_failed")
    assert (failed["step"], failed["retry_seconds"]) == (3, None)
    assert describe(failed).startswith(f"no checkpoint of step 3: {run.checkpoints}/00000003-0: the checkpoint could")
    assert describe(failed | {"retry_seconds": 12.5}).endswith("; training goes on, next try in 12.5 s")


def test_the_lease_needs_no_space(small_disk, monkeypatch):
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.01)
    run = Run(small_disk / "run")
    run.directory.mkdir()
    with lease.hold(run):
        Filler(small_disk).fill()
        seen, deadline = lease.last(run)["heartbeat"], time.monotonic() + 30
        while lease.last(run)["heartbeat"] == seen:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    assert lease.last(run)["ended"] is True
    with lease.hold(run) as before:
        assert before["ended"] is True
