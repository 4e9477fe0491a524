"""NVML: the real pynvml against a real shared library that answers as 16 K80s are scripted to."""

import json
import os
import subprocess
import sys
import time

import pytest
from fakes.nvml import IN_TURNS, K80, LOST, NOT_SUPPORTED, FakeNvml
from run_logs import start, step, write_run
from test_monitor import TRAINER, until

from trainer.observe import events
from trainer.observe.diagnose import diagnose
from trainer.observe.diagnose.gpus import MEASURES
from trainer.observe.gpu import used_gpus

DEVICES = [f"gpu({number})" for number in range(16)]
COMMAND = [sys.executable, "-m", "trainer", "monitor", "--interval-seconds", "0.1", "--run"]


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    return FakeNvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def monitored(nvml, tmp_path):
    """A run on 16 healthy GPUs that seems to train, and its real monitor; both end with the test."""
    nvml.init, nvml.devices = 0, [dict(K80) for _ in range(16)]
    nvml.write()
    run = write_run(tmp_path / "r", [start(1000, devices=DEVICES)])
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(run.directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as trainer:
        assert trainer.stdout.readline() == "trains\n"
        with subprocess.Popen([*COMMAND, str(run.directory)], env=os.environ | nvml.environment) as monitor:
            yield run
            trainer.kill()
            monitor.wait(20)


def gpus(run):
    """The newest sample's devices; None when it has none."""
    samples = list(events.read(run.samples))
    return samples[-1].get("gpus") if samples else None


def all_null(entry):
    return all(entry[key] is None for key in (*MEASURES, "throttle"))


def test_sixteen_gpus_through_everything_that_happens_to_them(nvml, monitored):
    until(lambda: gpus(monitored) is not None)
    first = gpus(monitored)
    assert len(first) == 16
    expected = {
        "util": 97, "mem_used_mb": 10_900, "mem_total_mb": 11_439, "power_w": 138.0, "sm_clock_mhz": 875,
        "temperature_c": 66, "throttle": None,
    }  # fmt: skip
    assert {key: first[0][key] for key in expected} == expected
    # By PCI bus id, which runs against NVML's own order in the fake.
    assert [entry["index"] for entry in first] == list(range(16))
    assert first == sorted(first, key=lambda entry: entry["pci_bus_id"])
    assert first[0]["uuid"] == "GPU-00000015-fake"

    nvml.change(15, util=NOT_SUPPORTED, power=NOT_SUPPORTED)
    until(lambda: gpus(monitored)[0]["util"] is None)
    assert gpus(monitored)[0]["power_w"] is None
    assert gpus(monitored)[0]["sm_clock_mhz"] == 875

    nvml.change(12, error=LOST)
    until(lambda: all_null(gpus(monitored)[3]))
    assert [entry["index"] for entry in gpus(monitored) if not all_null(entry)] == [0, 1, 2, *range(4, 16)]

    nvml.change(12, error=0, present=0)  # now NVML does not even count it, and the devices behind it move up
    until(lambda: len(gpus(monitored)) == 16 and all_null(gpus(monitored)[3]))
    assert [entry["uuid"] for entry in gpus(monitored)] == [entry["uuid"] for entry in first]
    assert diagnose(list(events.read(monitored.samples))).verdict == "unknown"  # no step has been trained

    nvml.change(12, present=1)
    until(lambda: gpus(monitored)[3]["util"] == 97)

    nvml.change(0, reasons=0x40, temperature=92)
    nvml.change(1, reasons=0x4)
    nvml.change(2, reasons=0x8, temperature=90)
    nvml.change(3, reasons=0x8, temperature=60)
    until(lambda: [entry["throttle"] for entry in gpus(monitored)[12:]] == ["power", "thermal", "power", "thermal"])


def test_a_call_that_hangs_does_not_hold_up_the_samples(nvml, monitored):
    until(lambda: gpus(monitored) is not None)
    nvml.change(7, delay=60_000)
    until(lambda: gpus(monitored) is None)  # an old answer is no answer
    count = len(list(events.read(monitored.samples)))
    until(lambda: len(list(events.read(monitored.samples))) >= count + 5)


def test_a_driver_that_comes_later_is_found(nvml, monitored):
    until(lambda: gpus(monitored) is not None)
    nvml.init = 9  # an update took the driver away
    nvml.write()
    until(lambda: gpus(monitored) is None)
    nvml.init = 0
    nvml.write()
    until(lambda: gpus(monitored) is not None)


def test_the_articles_stall_is_seen_through_nvml(nvml, monitored):
    """100 % in one moment and 0 % in the next, four decode threads: what the article found by hand."""
    for device in range(16):
        nvml.change(device, util=IN_TURNS)
    with open(monitored.events, "a") as log:
        for number in range(1, 4):
            log.write(json.dumps(step(time.time(), number, images_per_second=400.0, data_wait_share=0.5)) + "\n")
    until(lambda: len(list(events.read(monitored.samples))) >= 60)
    seen = [sample | {"cpu": CPU_OF_THE_ARTICLE, "decode_threads": 4} for sample in with_gpus(monitored)]
    assert {entry["util"] for sample in seen[20:] for entry in sample["gpus"]} == {0, 100}
    found = diagnose(seen)
    assert found.verdict == "input_bound_decode", found.to_json()
    assert "the GPUs fall idle in turns" in " ".join(found.ranked[0].evidence)


CPU_OF_THE_ARTICLE = {"idle": 80.5, "iowait": 0.0, "user": 18.0, "cores": 64}


def with_gpus(run):
    return [sample for sample in events.read(run.samples) if sample.get("gpus")]


def test_without_a_driver_a_sample_has_no_gpus(tmp_path):
    code = "from trainer.observe.gpu import GpuReader; import time; r = GpuReader(0.01); time.sleep(0.3)"
    code += "; print(r.latest()); r.close()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr) == ("None\n", "")


FOUR = [{"index": place, "uuid": f"GPU-{place}a"} for place in range(4)]


@pytest.mark.parametrize(
    ("wanted", "visible", "expected"),
    [
        (["gpu(0)", "gpu(2)"], None, [0, 2]),
        (["gpu(0)", "gpu(1)"], "3,1", [3, 1]),
        (["gpu(0)"], "GPU-2", [2]),
        (["gpu(0)", "gpu(1)"], "1,nonsense,2", [1]),
        (["gpu(0)"], "", []),
        (["gpu(5)"], None, []),
        (["cpu(0)"], None, []),
    ],
)
def test_a_run_is_judged_by_the_gpus_that_it_uses(monkeypatch, wanted, visible, expected):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [entry["index"] for entry in used_gpus(FOUR, wanted)["gpus"]] == expected


@pytest.mark.parametrize(("devices", "wanted"), [(None, ["gpu(0)"]), (FOUR, []), (None, [])])
def test_what_is_not_known_is_left_out(devices, wanted):
    assert used_gpus(devices, wanted) == {}
