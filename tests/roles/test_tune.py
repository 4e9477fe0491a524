"""A new run is tuned before it begins, once."""

import json
import tomllib

import pytest
from playing import run_play


@pytest.fixture(scope="module")
def tuned_run(pictures, tmp_path_factory):
    """Folder, arguments and output of a play that tunes the threads and trains."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "place").mkdir()
    arguments = [
        "-e", f"trainer_dataset={pictures}", "-e", "trainer_epochs=1", "-e", "trainer_warmup_epochs=0",
        "-e", "trainer_batch_size=12", "-e", "trainer_tune=threads",
        "-e", f"trainer_tunings_directory={folder}/tunings", "-e", f"trainer_checkpoint_mirror=file://{folder}/place",
    ]
    done = run_play(folder, *arguments)
    assert done.returncode == 0, done.stdout
    return folder, arguments, done.stdout


def test_the_configuration_has_what_was_found(tuned_run):
    folder, _, printed = tuned_run
    found = json.loads((folder / "run/colours/tuning.json").read_text())
    values = tomllib.loads((folder / "run/colours/config.toml").read_text())
    assert values["decode_threads"] == found["decode_threads"]
    assert values["batch_size"] == found["batch_size"] == 12
    assert values["tuning"]["images_per_second"] == found["images_per_second"]
    assert found["seconds"] <= 30
    assert "training, batch 12" in printed


def test_the_run_began_with_it(tuned_run):
    folder, _, _ = tuned_run
    events = [json.loads(line) for line in (folder / "run/colours/events.jsonl").read_text().splitlines()]
    found = json.loads((folder / "run/colours/tuning.json").read_text())
    start = next(event for event in events if event["kind"] == "start")
    assert start["decode_threads_effective"] == found["decode_threads"]


def test_the_second_play_neither_tunes_nor_changes_anything(tuned_run):
    folder, arguments, _ = tuned_run
    before = (folder / "run/colours/tuning.json").read_text()
    done = run_play(folder, *arguments)
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    assert (folder / "run/colours/tuning.json").read_text() == before


def test_a_host_that_takes_over_goes_on_with_what_the_run_was_tuned_to(tuned_run):
    folder, arguments, _ = tuned_run
    run, lost = folder / "run/colours", folder / "lost"
    run.rename(lost)
    done = run_play(folder, *arguments)
    assert done.returncode == 0, done.stdout
    assert "TASK [trainer : Tune by measurement" not in done.stdout
    for name in ("tuning.json", "events.jsonl", "config.toml"):
        assert (run / name).read_text().startswith((lost / name).read_text()), name
