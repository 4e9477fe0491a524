"""The doctor on real runs: whatever is taken away from a training on this machine, the verdict follows."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
import simplejpeg
from test_monitor import until
from test_train import COMMAND, of_kind, write_config

from trainer.data.record_writer import RecordWriter
from trainer.observe import events
from trainer.observe.diagnose import diagnose

BLKIO = Path("/sys/fs/cgroup/blkio")
SAMPLES = 8
PATIENCE_SECONDS = 60


def noisy_pictures(path: Path, count: int, height: int, width: int) -> Path:
    """Noise is the most that a JPEG can hold: many bytes to read and much to decode for each pixel."""
    picture = simplejpeg.encode_jpeg(
        np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8), quality=85
    )
    with RecordWriter(path) as writer:
        for number in range(count):
            writer.write(number, float(number % 4), picture)
        writer.publish()
    return path


@pytest.fixture
def recipe(tiny_recipe, tmp_path):
    """Far more work to decode than a small network on 28 px is to train."""
    return tiny_recipe | {
        "data_train": str(noisy_pictures(tmp_path / "heavy.rec", 24, 1200, 1600)), "data_val": None, "epochs": 1000,
        "batch_size": 8, "base_learning_rate": 0.01, "augmentation": "crop", "decode_threads": 1, "display_steps": 1,
    }  # fmt: skip


def is_quiet() -> bool:
    return psutil.cpu_percent(interval=0.5) < 15


@pytest.fixture
def quiet_machine():
    """Waits a little for other processes to leave processor time: the doctor judges the whole machine."""
    deadline = time.monotonic() + 5
    while not is_quiet():
        if time.monotonic() > deadline:
            pytest.skip("other processes use this machine's processor, so that no run on it can find it idle")


@contextmanager
def training(run):
    """A training that has made its first step; it is stopped at the end."""
    command = [*COMMAND, "train", "--config", str(run.config)]
    log = run.directory / "log"
    with open(log, "w") as file, subprocess.Popen(command, stderr=file, stdout=file) as process:
        try:
            until_trained(run, process, log)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)


def until_trained(run, process, log):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not of_kind(run, "step"):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def samples_from_now(run) -> list[dict]:
    """As many samples as a verdict needs, all taken after this moment."""
    began = time.time() + 1
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        found = [sample for sample in events.read(run.samples) if sample["t"] > began]
        if len(found) >= SAMPLES:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_few_decode_threads(recipe, quiet_machine):
    run = write_config(recipe)
    with training(run):
        found = diagnose(samples_from_now(run))
    assert found.verdict == "input_bound_decode", found.to_json()
    assert found.images_per_second < 0.7 * found.roof_images_per_second
    assert found.to_json()["advice"].startswith("Raise decode_threads from 1 to 2 or more")


def test_a_starved_processor(recipe):
    run = write_config(recipe | {"decode_threads": 2})
    with training(run), busy_processes(2 * os.cpu_count()):
        found = diagnose(samples_from_now(run))
    assert found.verdict == "input_bound_cpu", found.to_json()
    assert found.images_per_second < 0.7 * found.roof_images_per_second


@contextmanager
def busy_processes(count: int):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.fixture
def slow_disk(tmp_path):
    """Makes a process read at most 1 MB/s from the disk that holds the test's files."""
    device = os.stat(tmp_path).st_dev
    group = BLKIO / f"kit-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can slow a disk here: {error.strerror}")
    (group / "blkio.throttle.read_bps_device").write_text(f"{os.major(device)}:{os.minor(device)} 1000000\n")
    yield lambda process: (group / "cgroup.procs").write_text(str(process.pid))
    until(lambda: not (group / "cgroup.procs").read_text())
    group.rmdir()


def forget(path: Path) -> None:
    """Out of the file cache, so that reading it needs the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def test_a_slow_disk(recipe, tmp_path, slow_disk, quiet_machine):
    data = noisy_pictures(tmp_path / "many.rec", 400, 150, 200)
    run = write_config(recipe | {"decode_threads": 2, "data_train": str(data)})
    with training(run) as process:
        slow_disk(process)
        forget(data)
        found = diagnose(samples_from_now(run))
    assert found.verdict == "input_bound_disk", found.to_json()
    assert found.images_per_second < 0.7 * found.roof_images_per_second
