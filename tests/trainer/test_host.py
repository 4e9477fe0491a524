"""The machine's load from two readings."""

import ast
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from trainer.observe import host
from trainer.observe.host import Reading

STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def reading(seconds, cpu=(), disks=(), available=8_000_000_000, swapped=0):
    return Reading(seconds, {**dict.fromkeys(STATES, 0.0), **dict(cpu)}, available, swapped, dict(disks))


def test_shares_are_those_of_all_cores_between_the_readings():
    before = reading(0, {"user": 100, "idle": 500})
    after = reading(10, {"user": 104, "nice": 4, "system": 1, "irq": 1, "idle": 508, "iowait": 1, "steal": 1})
    cpu = host.sample(before, after)["cpu"]
    assert cpu == {"idle": 40.0, "iowait": 5.0, "user": 40.0, "system": 10.0, "cores": psutil.cpu_count()}


def test_disks_add_up_and_the_busiest_counts():
    before = reading(0, disks={"a": (0, 0), "b": (1_000_000, 100), "gone": (5, 5)})
    after = reading(2, disks={"a": (3_000_000, 500), "b": (2_000_000, 1600), "new": (9_000_000, 2000)})
    assert host.sample(before, after)["disk"] == {"read_mb_s": 2.0, "util": 75.0}


def test_memory_and_swap_in_decimal_megabytes():
    memory = host.sample(reading(0), reading(4, swapped=8_000_000, available=7_654_321_000))["host_memory"]
    assert memory == {"available_mb": 7654, "swap_mb_s": 2.0}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (reading(5), reading(5)),
        (reading(0, {"iowait": 9, "user": 1}), reading(1, {"iowait": 8, "user": 2})),
        (reading(0, disks={"a": (900, 900)}, swapped=7), reading(1, disks={"a": (3, 3)})),
        (reading(0, disks={"a": (0, 0)}), reading(0.1, disks={"a": (1, 5000)})),
    ],
    ids=["no time", "iowait backwards", "counters reset", "busier than time"],
)
def test_odd_counters_stay_within_bounds(before, after):
    sample = host.sample(before, after)
    assert all(0 <= share <= 100 for key, share in sample["cpu"].items() if key != "cores")
    assert 0 <= sample["disk"]["util"] <= 100
    assert sample["disk"]["read_mb_s"] >= 0
    assert sample["host_memory"]["swap_mb_s"] >= 0


def test_this_machine_answers():
    sample = host.sample(host.read(), host.read())
    assert sample["host_memory"]["available_mb"] > 0
    assert sum(sample["cpu"][state] for state in ("idle", "iowait", "user", "system")) <= 100.3


def test_partitions_and_virtual_disks_are_not_counted_again():
    virtual = {path.name for path in Path("/sys/block").iterdir() if not (path / "device").exists()}
    partitions = {path.parent.name for path in Path("/sys/block").glob("*/*/partition")}
    assert not set(host.read().disks) & (virtual | partitions)


def test_only_the_processors_that_the_run_may_use_count():
    """Half of a machine may idle while a run that is tied to the other half has no time left."""
    code = (
        "import os; os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
        "from trainer.observe import host\n"
        "before = host.read(); [None for _ in range(20_000_000)]\n"
        "print(host.sample(before, host.read())['cpu'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cpu = ast.literal_eval(done.stdout)
    assert cpu["cores"] == 1
    assert cpu["idle"] < 20
