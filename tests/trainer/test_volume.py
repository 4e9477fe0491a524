"""Data on a volume that is being read for the first time: the steps say so, and nothing is measured on it."""

import json
import os
import subprocess
import threading
import time

import pytest

from trainer import volume
from trainer.errors import DataError
from trainer.observe import events
from trainer.observe.report import write_report
from trainer.observe.training_state import TrainingState
from trainer.run import Run
from trainer.spot.stop import StopRequest
from trainer.tune.conditions import wait_until_warm

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


@pytest.fixture
def mounted(tmp_path):
    """A file system of the test's own with sets/train.rec on it; the path of that file."""
    top = tmp_path / "data"
    top.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(top)], check=True)
    (top / "sets").mkdir()
    (top / "sets/train.rec").touch()
    (top / volume.MARKER).write_text('{"volume_id": "vol-1"}')
    yield top / "sets/train.rec"
    subprocess.run(["umount", str(top)], check=True)


def put(mounted, **changes):
    found = {"volume_id": "vol-1", "bytes_read": 10**9, "bytes_total": 3 * 10**9, "seconds_left": 20, "finished": False}
    part = mounted.parent.parent / "part"
    part.write_text(json.dumps(found | changes))
    part.rename(mounted.parent.parent / volume.WARM_UP)


def test_it_is_cold_until_its_own_warm_up_is_finished(mounted):
    assert volume.warm_up(mounted) is None
    put(mounted)
    assert volume.words(volume.warm_up(mounted)) == "1.0 of 3.0 GB read, 20 s left"
    put(mounted, volume_id="vol-0")  # a snapshot's
    assert volume.warm_up(mounted) is None
    put(mounted, finished=True)
    assert volume.warm_up(mounted) is None


def test_half_a_file_no_file_and_no_volume_say_nothing(mounted, tmp_path):
    put(mounted)
    assert volume.warm_up(mounted.with_name("none.rec")) is None
    (mounted.parent.parent / volume.WARM_UP).write_text('{"volume')
    assert volume.warm_up(mounted) is None
    assert volume.warm_up(tmp_path) is None


def test_steps_are_marked_as_long_as_it_is_cold(mounted):
    said = []
    report = volume.marking_cold(lambda kind, **fields: said.append((kind, fields)), mounted)
    put(mounted)
    report("start")
    report("step", step=1)
    put(mounted, finished=True)
    report("step", step=2)
    put(mounted)
    report("step", step=3)
    assert said == [
        ("start", {}), ("step", {"step": 1, "cold_volume": True}), ("step", {"step": 2}), ("step", {"step": 3})
    ]


def test_samples_and_the_epoch_in_the_report_are_marked(mounted, tmp_path):
    put(mounted)
    run = Run(tmp_path / "r")
    run.directory.mkdir()
    report = volume.marking_cold(events.event_writer(run.events), mounted)
    report("start", devices=["cpu(0)"], batch_size=4, examples=8, epochs=2, config={"data_train": str(mounted)})
    report("step", step=2, loss=1.0)
    report("validation", step=2, top1=0.5)
    assert TrainingState(run).sample()["cold_volume"] is True
    put(mounted, finished=True)
    report("step", step=4, loss=1.0)
    report("validation", step=4, top1=0.5)
    assert "cold_volume" not in TrainingState(run).sample()
    assert [row["cold"] for row in write_report(run)["per_epoch"]] == [True, False]
    assert run.report_html.read_text().count("(cold volume)") == 1


def test_tuning_waits_until_it_is_warm(mounted):
    put(mounted)
    said = []
    waiting = threading.Thread(target=wait_until_warm, args=(mounted, said.append, StopRequest()), daemon=True)
    waiting.start()
    time.sleep(1.5)
    assert waiting.is_alive()
    put(mounted, finished=True)
    waiting.join(10)
    assert not waiting.is_alive()
    assert said == [f"waiting until the volume of {mounted} is warm: 1.0 of 3.0 GB read, 20 s left"]


def test_tuning_refuses_a_volume_whose_warm_up_stands_still(mounted):
    put(mounted)
    with pytest.raises(DataError, match=r"must be read once .* got 1\.0 of 3\.0 GB read"):
        wait_until_warm(mounted, lambda line: None, StopRequest(), standstill_seconds=0.5)


def test_who_asks_to_stop_does_not_wait(mounted):
    put(mounted)
    stop = StopRequest()
    stop.ask("signal")
    wait_until_warm(mounted, lambda line: None, stop)
