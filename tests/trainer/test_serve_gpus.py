"""The whole way from NVML to a scrape: 16 GPUs, of which one hangs, is lost, or whose driver goes away."""

import re
import subprocess
import sys
import time
from statistics import median

import pytest
from fakes.nvml import FakeNvml
from run_logs import start, write_run
from serving import serving, value
from test_monitor import TRAINER, until

DEVICES = [f"gpu({number})" for number in range(16)]
SCRAPE_SECONDS = 0.05
LAST = "00000000:31:1E.0"  # NVML's device 15


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    return FakeNvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def server(nvml, tmp_path_factory):
    """Beside something that seems to train; it starts the real sampler."""
    folder = tmp_path_factory.mktemp("gpus")
    run = write_run(folder / "r", [start(time.time(), devices=DEVICES)])
    lease = [sys.executable, "-c", TRAINER, str(run.directory)]
    with subprocess.Popen(lease, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout.readline() == "trains\n"
        with serving(run, folder, **nvml.environment) as server:
            until(lambda: value(scrape(server), "trainer_nvml_up") == 1)
            yield server
        trainer.kill()


def scrape(server) -> str:
    return server.get("/metrics")[2].decode()


def test_a_scrape_is_quick_while_a_gpu_hangs_for_three_seconds(nvml, server):
    """Most of them: this machine may have other work."""
    nvml.change(15, delay=3000)
    times, seen, before = [], set(), value(scrape(server), "trainer_last_sample_timestamp_seconds")
    deadline = time.monotonic() + 9
    while time.monotonic() < deadline:
        began = time.perf_counter()
        found = scrape(server)
        times.append(time.perf_counter() - began)
        seen.add(len(re.findall("^trainer_gpu_up{", found, flags=re.MULTILINE)))
        time.sleep(0.3)
    assert median(times) < SCRAPE_SECONDS, times
    assert seen == {16}
    assert value(found, "trainer_last_sample_timestamp_seconds") > before + 5
    nvml.change(15, delay=0)


def test_those_that_answer_are_counted_to_the_last(nvml, server):
    assert value(scrape(server), "trainer_gpus_answering") == 16
    for place in range(16):
        nvml.change(place, present=0)
    until(lambda: value(scrape(server), "trainer_gpus_answering") == 0)
    for place in range(16):
        nvml.change(place, present=1)
    until(lambda: value(scrape(server), "trainer_gpus_answering") == 16)


def test_what_a_gpu_cannot_tell_has_no_series_and_errors_are_counted(nvml, server):
    nvml.change(15, util=-1, ecc=2)
    until(lambda: value(scrape(server), f'trainer_gpu_ecc_errors_total{{gpu="{LAST}"}}') == 2)
    until(lambda: value(scrape(server), f'trainer_gpu_utilization_ratio{{gpu="{LAST}"}}') is None)
    assert value(scrape(server), f'trainer_gpu_up{{gpu="{LAST}"}}') == 1
    nvml.change(15, util=97, ecc=0)


def test_a_gpu_that_falls_off_the_bus_is_down_and_the_others_keep_their_names(nvml, server):
    names = set(re.findall(r'trainer_gpu_up\{gpu="(.+)"\} 1', scrape(server)))
    assert len(names) == 16
    nvml.change(15, present=0)
    until(lambda: value(scrape(server), f'trainer_gpu_up{{gpu="{LAST}"}}') == 0)
    found = scrape(server)
    assert set(re.findall(r'trainer_gpu_up\{gpu="(.+)"\} 1', found)) == names - {LAST}
    assert value(found, f'trainer_gpu_temperature_celsius{{gpu="{LAST}"}}') is None
    nvml.change(15, present=1)
    until(lambda: value(scrape(server), f'trainer_gpu_up{{gpu="{LAST}"}}') == 1)


def test_a_driver_that_goes_and_comes_back(nvml, server):
    nvml.init = 9
    nvml.write()
    until(lambda: value(scrape(server), "trainer_nvml_up") == 0)
    assert "trainer_gpu_up{" not in scrape(server)
    nvml.init = 0
    nvml.write()
    until(lambda: value(scrape(server), "trainer_nvml_up") == 1)
