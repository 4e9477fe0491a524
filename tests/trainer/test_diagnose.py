"""Scripted samples and the verdict on them: each cause, mixtures, noise, what is missing, odd values."""

import json
import random
import time

import pytest
from doctor_samples import (
    CASES,
    Host,
    change,
    exchanging,
    healthy,
    of_gpus,
    of_run,
    one_slow,
    out_of_cpu,
    samples,
    slow_disk,
    small_batch,
    starved,
    without,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.observe.diagnose import VERDICTS, diagnose

ROOF = "roof_images_per_second"
HOSTS = [(16, 64), (8, 32), (4, 32), (2, 16), (1, 8)]
NEEDS_TWO = ("sync_bound", "one_device_slow")


def on(gpus, cores, **more):
    return {"gpus": gpus, "cores": cores, "roof": 49.5 * gpus, "batch": 88 * gpus} | more


def verdict(rows):
    return diagnose(rows).verdict


def costs(rows):
    return {finding.verdict: finding.cost_images_per_second for finding in diagnose(rows).ranked}


@pytest.mark.parametrize("gpus_cores", HOSTS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_found_on_every_host_through_noise(name, gpus_cores):
    if name in NEEDS_TWO and gpus_cores[0] < 2:
        pytest.skip("one device has nobody to wait for")
    for noise in (0, 0.05, 0.1):
        for seconds in (12, 60):
            rows = CASES[name](**on(*gpus_cores, noise=noise, seconds=seconds, seed=seconds))
            assert verdict(rows) == name, (noise, seconds, diagnose(rows).to_json())


# What a cause cannot be seen without, and what is taken for it then.
BLIND = {
    ("batch_too_small", "gpus"): {"unknown"}, ("device_lost", "gpus"): {"unknown", "device_bound"},
    ("one_device_slow", "gpus"): {"unknown"}, ("thermal_throttle", "gpus"): {"unknown"},
    ("input_bound_cpu", "cpu"): {"input_bound_decode"},
}  # fmt: skip
FIELDS = (
    ROOF, "data_wait_share", "gpus", "cpu", "disk", "decode_threads", "batch_size", "steps", "step_seconds", "t"
)  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", CASES)
def test_a_missing_field_lowers_the_confidence_and_seldom_changes_the_verdict(name, field):
    full = {finding.verdict: finding.confidence for finding in diagnose(CASES[name]()).ranked}
    found = diagnose(without(CASES[name](), field))
    assert found.verdict in BLIND.get((name, field), {name}), found.to_json()
    if name != "unknown":
        assert field in found.missing
        assert all(item.confidence < full.get(item.verdict, 1) for item in found.ranked)


def test_the_articles_case():
    """400 of 792 images/s: 100 % in one second, 0 % in the next; 80.5 % idle, no iowait, four threads of 64 cores."""
    rows = change(starved(batch=128, memory=0.13), of_gpus(util=lambda second, gpu: 100 * (second % 2)))
    found = diagnose(rows)
    assert found.verdict == "input_bound_decode"
    assert found.ranked[0].cost_images_per_second == pytest.approx(792 - 404, abs=5)
    assert found.ranked[0].confidence > 0.9
    told = found.to_json()
    assert "idle in 50 % of the readings" in " ".join(told["evidence"])
    assert "80.5 % idle, 0.0 % iowait, 19.5 % busy of 64 cores; 4 decode threads" in " ".join(told["evidence"])
    assert told["advice"].startswith("Raise decode_threads from 4 to ")
    assert costs(change(rows, of_run(data_wait_share=0.3)))["input_bound_decode"] > 350  # the GPUs idle for longer
    tuned = healthy(idle=35, data_wait=0.03)
    assert verdict(change(tuned, of_run(images_per_second=lambda second: 700 + second % 7))) == "device_bound"


def in_turns(second, gpu):
    return 100 * ((second + gpu) % 2)


def mostly_idle_or_busy(second, gpu):
    """Four devices wait three seconds of four, the others one of four."""
    return 98 * ((second + gpu) % 4 >= (3 if gpu < 4 else 1))


LOST = of_gpus(util=None, mem_used_mb=None, mem_total_mb=None, power_w=None, sm_clock_mhz=None, temperature_c=None)


def fifth(alter):
    """Only the fifth GPU."""

    def only(number, row):
        alter(number, {"gpus": row["gpus"][5:6]})

    return only


def held_down(second, row):
    of_gpus(util=lambda _, gpu: 58)(second, row)
    row["gpus"][3] |= {"util": 98, "sm_clock_mhz": 500, "temperature_c": 92, "throttle": "thermal"}
    row["images_per_second"] *= 0.6


def all_hot():
    """As drivers report it: no reading is spared, and the clock goes up and down a little."""
    jumping = of_gpus(throttle="thermal", temperature_c=87, sm_clock_mhz=lambda second, gpu: 562 + 13 * (second % 4))
    return change(healthy(slowdown=0.33, noise=0.02), jumping)


def pausing(rows, begin, end, util):
    """No step in rows `begin` to `end`; the steps are done later."""
    still = {"images_per_second": 0, "steps": rows[begin]["steps"]}
    change(rows[:end], of_run(**still), begin)
    change(rows[:end], of_gpus(util=util), begin)
    return rows


def in_part(second, gpu):
    return 50 + (13 * second + 7 * gpu) % 40


def noisily_busy(second, gpu):
    return 100 - (37 * second + 11 * gpu) % 30


IN_PART = {"gpus": lambda second: [{"util": in_part(second, gpu), "power_w": 110} for gpu in range(16)]}


def later(rows, seconds, steps):
    return [row | {"t": row["t"] + seconds, "steps": row["steps"] + steps} for row in rows]


def warming_up(rows, seconds=6, speed=None):
    def alter(second, row):
        if second < seconds:
            row |= {"images_per_second": speed or 20 + 30 * second, "data_wait_share": 0.9}
            of_gpus(util=5)(second, row)

    return change(rows, alter)


def before_the_first_step(rows, seconds=5):
    silent = of_run(images_per_second=None, data_wait_share=None, step_seconds=None, steps=0)
    change(rows[:seconds], silent)
    change(rows[:seconds], of_gpus(util=0, mem_used_mb=300))
    return rows


def cpu_host(**more):
    return healthy(**{"gpus": 0, "cores": 2, "threads": 2, "roof": 100.0, "batch": 64, "told_roof": False} | more)


BUSY = {"gpus": lambda second: [{"util": 100, "power_w": 60, "mem_used_mb": 9000, "mem_total_mb": 11439}] * 16}

SCRIPTS = {
    # Utilisation: its distribution counts, and it is never believed alone.
    "GPUs idle in turns": ("input_bound_decode", lambda: change(starved(), of_gpus(util=in_turns))),
    "half busy all the time": ("input_bound_decode", lambda: change(starved(), of_gpus(util=50))),
    "busy and waiting for data": ("input_bound_decode", lambda: change(starved(), of_gpus(util=99))),
    "in turns, wait unknown": (
        "input_bound_decode", lambda: without(change(starved(), of_gpus(util=in_turns)), "data_wait_share", ROOF)
    ),
    "half busy, wait unknown": (
        "input_bound_decode", lambda: without(change(starved(), of_gpus(util=50)), "data_wait_share", ROOF)
    ),
    "the wait comes and goes": (
        "input_bound_decode", lambda: change(starved(), of_run(data_wait_share=lambda second: 0.9 * (second % 2)))
    ),
    "busy and exchanging": ("sync_bound", lambda: change(exchanging(), of_gpus(util=100))),
    "fed, and yet idle for a part of each second": (
        "sync_bound", lambda: without(change(healthy(slowdown=0.35), of_gpus(util=64)), ROOF)
    ),
    # Which part of the input.
    "a little iowait is none": (
        "input_bound_decode", lambda: samples(Host(data_wait=0.5, threads=4, idle=78, iowait=2.5, disk_util=35))
    ),
    "a quarter of the cores idle": (
        "input_bound_decode", lambda: samples(Host(data_wait=0.3, threads=16, idle=25, iowait=1, disk_util=35))
    ),
    "others use the cores": (
        "input_bound_cpu", lambda: samples(Host(data_wait=0.5, threads=4, idle=1, iowait=0, disk_util=5))
    ),
    "a full disk without iowait": (
        "input_bound_disk", lambda: samples(Host(data_wait=0.5, idle=70, iowait=0.5, disk_util=99))
    ),
    "iowait, disk unknown": ("input_bound_disk", lambda: without(slow_disk(), "disk")),
    "few threads in reads": (
        "input_bound_disk", lambda: samples(Host(data_wait=0.6, threads=4, idle=92, iowait=5, disk_util=95))
    ),
    "few threads in reads, disk unknown": (
        "input_bound_disk", lambda: without(samples(Host(data_wait=0.6, threads=4, idle=93, iowait=4)), "disk")
    ),
    "a cold volume": (
        "input_bound_disk",
        lambda: samples(Host(data_wait=0.8, idle=85, iowait=2, disk_util=60, more={"cold_volume": True})),
    ),
    "swapping fills the disk": (
        "memory_pressure",
        lambda: change(
            samples(Host(data_wait=0.4, idle=30, iowait=45, disk_util=97)),
            of_run(host_memory={"available_mb": 150, "swap_mb_s": 60}),
        ),
    ),
    "a little swapping, hardly any memory": (
        "memory_pressure",
        lambda: change(slow_disk(), of_run(host_memory={"available_mb": 120, "swap_mb_s": 4})),
    ),
    "hardly any memory, swapping unknown": (
        "memory_pressure",
        lambda: change(healthy(slowdown=0.3), of_run(host_memory={"available_mb": 120})),
    ),
    "waits for what nobody knows": (
        "unknown", lambda: without(starved(), "cpu", "disk", "decode_threads")
    ),
    "fewer threads than asked for": (
        "input_bound_decode", lambda: change(starved(), of_run(decode_threads_asked=32))
    ),
    # What looks bad and costs nothing.
    "all cores busy but fed": ("device_bound", lambda: healthy(idle=2)),
    "iowait but fed": ("device_bound", lambda: healthy(iowait=30, idle=40, disk_util=95)),
    "waits a little, at the roof": (
        "device_bound", lambda: change(healthy(), of_run(data_wait_share=0.08, images_per_second=770))
    ),
    "waits much, at a roof that the input set": (
        "input_bound_cpu", lambda: change(out_of_cpu(), of_run(images_per_second=785))
    ),
    "few threads but fed": ("device_bound", lambda: healthy(threads=2, idle=95)),
    "cold but fed": ("device_bound", lambda: healthy(more={"cold_volume": True})),
    "low memory without swapping": (
        "device_bound", lambda: healthy(more={"host_memory": {"available_mb": 900, "swap_mb_s": 0}})
    ),
    "busy devices, and nothing else known of them": (
        "unknown",
        lambda: [{"t": s, "images_per_second": 700, "steps": s, "gpus": [{"util": 100}] * 16} for s in range(60)],
    ),
    "busy devices, neither roof nor wait known": ("unknown", lambda: without(healthy(), ROOF, "data_wait_share")),
    "at the power limit": ("device_bound", lambda: change(healthy(), of_gpus(throttle="power", power_w=149))),
    # Batch.
    "8 images a device, no roof": (
        "batch_too_small", lambda: without(change(small_batch(), of_gpus(util=70)), ROOF)
    ),
    "8 images a device, busy, no roof": (
        "batch_too_small", lambda: without(change(small_batch(), of_gpus(util=96)), ROOF)
    ),
    # Devices.
    "one hot device": ("thermal_throttle", lambda: change(healthy(), held_down)),
    "one hot device, others wait": (
        "thermal_throttle", lambda: change(change(healthy(), held_down), of_run(sync_wait_share=0.35))
    ),
    "all hot from the start, clocks jump": ("thermal_throttle", all_hot),
    "all hot from the start, clocks jump, no roof": ("thermal_throttle", lambda: without(all_hot(), ROOF)),
    "all hot, and nobody says what heat does": (
        "thermal_throttle", lambda: change(all_hot(), lambda _, row: [entry.pop("throttle") for entry in row["gpus"]])
    ),
    "clocks fall with heat": (
        "thermal_throttle",
        lambda: change(
            change(healthy(), of_gpus(sm_clock_mhz=lambda s, _: 875 - 5 * s, temperature_c=lambda s, _: 70 + s / 2)),
            lambda second, row: row.update(images_per_second=row["images_per_second"] * (875 - 5 * second) / 875),
        ),
    ),
    "hot, clocks unknown": (
        "thermal_throttle",
        lambda: change(healthy(slowdown=0.2), of_gpus(throttle="thermal", temperature_c=89, sm_clock_mhz=None)),
    ),
    "one slow by its clock alone": (
        "one_device_slow",
        lambda: change(healthy(slowdown=0.4), fifth(of_gpus(sm_clock_mhz=500))),
    ),
    "one busier than the others, through noise": (
        "one_device_slow",
        lambda: change(
            without(healthy(noise=0.08, slowdown=0.3), ROOF),
            lambda second, row: [e.update(util=e["util"] * 0.7) for i, e in enumerate(row["gpus"]) if i != 5],
        ),
    ),
    "one never idle, the others in turns": (
        "one_device_slow",
        lambda: change(change(healthy(slowdown=0.4), of_gpus(util=in_turns)), fifth(of_gpus(util=99))),
    ),
    "one less busy than the others": (
        "one_device_slow", lambda: change(healthy(slowdown=0.3), fifth(of_gpus(util=45)))
    ),
    "one slow, the others wait for it": (
        "one_device_slow", lambda: change(one_slow(), of_run(sync_wait_share=0.38))
    ),
    "a device that has only nulls in the end": (
        "device_lost", lambda: change(healthy(slowdown=1 / 16), fifth(LOST), begin=40)
    ),
    "a device that has only nulls from the start": ("device_lost", lambda: change(healthy(), fifth(LOST))),
    "a device that was away for a moment": (
        "device_bound", lambda: change(healthy(), lambda s, row: fifth(LOST)(s, row) if s in (7, 20, 21) else None)
    ),
    "a device that did not answer the last time": (
        "device_bound", lambda: change(healthy(), fifth(LOST), begin=59)
    ),
    "a device is gone and all hang": (
        "device_lost",
        lambda: change(
            healthy(), lambda second, row: row.update(gpus=row["gpus"][1:], steps=1012, images_per_second=0), begin=20
        ),
    ),
    "no device answers but steps go on": (
        "unknown", lambda: change(without(healthy(), ROOF, "data_wait_share", "cpu"), LOST)
    ),
    # Standing still.
    "hung from the start": ("hung", lambda: change(healthy(), of_run(steps=5000, images_per_second=0, **BUSY))),
    "hung, and the old speed is still told": (
        "hung", lambda: change(healthy(), of_run(steps=5000, images_per_second=770, **BUSY), begin=20)
    ),
    "hung, and no speed is told": (
        "hung",
        lambda: change(healthy(), of_run(steps=5000, images_per_second=None, step_seconds=None, **BUSY)),
    ),
    "hung, and the step gets longer": (
        "hung", lambda: change(healthy(), of_run(steps=5000, images_per_second=0, step_seconds=float, **BUSY))
    ),
    "hung without GPUs": ("hung", lambda: change(cpu_host(), of_run(steps=5000, images_per_second=0))),
    "hung before the first step": (
        "hung", lambda: change(healthy(), of_run(steps=0, images_per_second=0, step_seconds=None, **BUSY))
    ),
    "not begun yet": (
        "unknown", lambda: before_the_first_step(healthy(seconds=20), seconds=20)
    ),
    "steps of 25 s": (
        "device_bound",
        lambda: change(
            healthy(roof=57.0, seconds=40), of_run(steps=lambda second: 100 + second // 25, step_seconds=25.0)
        ),
    ),
    "a pause of 30 s for a validation": (
        "device_bound",
        lambda: change(healthy(seconds=120), of_run(steps=lambda s: s if s < 50 else max(50, s - 30))),
    ),
    "in a validation": (
        "device_bound",
        lambda: change(healthy(), of_run(steps=1030, images_per_second=None, activity="validation"), begin=30),
    ),
    "in a pause as long as those before": (
        "checkpoint_bound",
        lambda: change(
            change(healthy(saving=0.3, seconds=80), of_run(steps=lambda second: second - max(0, second % 40 - 27))),
            lambda second, row: row.update(images_per_second=0) if second % 40 > 27 else None,
        ),
    ),
    "in the first validation, which nobody names": ("device_bound", lambda: pausing(healthy(), 30, 60, in_part)),
    "in the first validation, the old speed is told": (
        "device_bound", lambda: change(healthy(), of_run(steps=1030, **IN_PART), begin=30)
    ),
    "hung, utilisation noisy": ("hung", lambda: pausing(healthy(), 20, 60, noisily_busy)),
    "hung, one GPU of two idle": ("hung", lambda: pausing(healthy(gpus=2), 20, 60, lambda _, gpu: 100 * gpu)),
    "in an endless validation": ("hung", lambda: pausing(healthy(seconds=700), 30, 700, in_part)),
    "two validations in which GPUs are busy": (
        "device_bound",
        lambda: pausing(pausing(healthy(seconds=120), 30, 50, in_part), 80, 100, 99),
    ),
    "one idle pause": ("device_bound", lambda: pausing(healthy(seconds=90), 40, 60, 0)),
    "idle pauses that return": (
        "checkpoint_bound",
        lambda: pausing(pausing(healthy(seconds=120), 30, 45, 0), 75, 90, 0),
    ),
    "the disk delivers nothing": (
        "input_bound_disk",
        lambda: change(
            change(slow_disk(), of_run(steps=1010, images_per_second=0, data_wait_share=1.0), begin=20),
            of_gpus(util=0), begin=20,
        ),
    ),
    # Which samples count.
    "slow first seconds": ("device_bound", lambda: warming_up(healthy())),
    "slow for most of the time": ("device_bound", lambda: warming_up(healthy(seconds=60), 36, speed=100)),
    "no step in the first seconds": (
        "unknown", lambda: change(healthy(seconds=20), of_run(steps=0, images_per_second=0, step_seconds=None))
    ),
    "slow first seconds of few": ("device_bound", lambda: warming_up(healthy(seconds=14))),
    "slow until the setting changed": (
        "device_bound", lambda: [*starved(), *later(healthy(seconds=20), 60, 1000)]
    ),
    "fast until the setting changed": (
        "input_bound_decode", lambda: [*healthy(seconds=30), *later(starved(), 30, 1000)]
    ),
    "started again with more threads": ("device_bound", lambda: [*starved(), *later(healthy(seconds=40), 300, 0)]),
    "one sample": ("input_bound_decode", lambda: starved(seconds=1)),
    "two samples": ("device_bound", lambda: healthy(seconds=2)),
    "no samples": ("unknown", list),
    "only times": ("unknown", lambda: [{"t": second} for second in range(20)]),
    # Hosts without GPUs: the processor is the device.
    "CPU: few threads": ("input_bound_decode", lambda: cpu_host(cores=8, threads=1, data_wait=0.4, idle=45)),
    "CPU: no time left": ("input_bound_cpu", lambda: cpu_host(data_wait=0.4, idle=1)),
    "CPU: slow disk": ("input_bound_disk", lambda: cpu_host(data_wait=0.5, idle=10, iowait=60, disk_util=98)),
    "CPU: computing": ("device_bound", lambda: cpu_host(idle=3)),
    "CPU: computing on half of the cores": ("device_bound", lambda: cpu_host(idle=48)),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name):
    expected, rows = SCRIPTS[name]
    found = diagnose(rows())
    assert found.verdict == expected, found.to_json()


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("hung", "unknown")])
def test_the_first_samples_of_a_run_are_no_ground(name):
    assert verdict(before_the_first_step(CASES[name](seconds=30))) == name


def mixture(parts: dict, **settings):
    """Samples of a run that loses `parts[cause]` of its time to each cause."""
    known = {
        "input_bound_decode": {"threads": 4, "idle": 80, "iowait": 0, "disk_util": 12},
        "input_bound_cpu": {"threads": 64, "idle": 2, "iowait": 0, "disk_util": 12},
        "input_bound_disk": {"idle": 50, "iowait": 30, "disk_util": 99},
        "batch_too_small": {"batch": 128, "memory": 0.13},
    }  # fmt: skip
    shares = {"sync_bound": "sync", "checkpoint_bound": "saving"}
    host = {}
    for cause, share in parts.items():
        host |= known.get(cause, {})
        host |= {"data_wait": share} if cause.startswith("input_") else {}
        host |= {shares[cause]: share} if cause in shares else {}
    waiting = host.get("data_wait", 0.02) + host.get("sync", 0) + host.get("saving", 0)
    slowing = sum(parts.get(cause, 0) for cause in SLOWING) / (1 - waiting)
    rows = samples(Host(**host, slowdown=slowing, **settings))
    for row in rows:
        if "thermal_throttle" in parts:
            held_down_by_heat = of_gpus(throttle="thermal", temperature_c=91, sm_clock_mhz=875 * (1 - slowing))
            held_down_by_heat(0, {"gpus": row["gpus"][:8]})
        if "one_device_slow" in parts:
            row["gpus"][12]["sm_clock_mhz"] *= 1 - slowing
        if "device_lost" in parts:
            row |= {"gpus_expected": 16, "gpus": row["gpus"][round(16 * parts["device_lost"]) :]}
    return rows


SLOWING = ("thermal_throttle", "one_device_slow", "batch_too_small", "device_lost")
INPUT = ("input_bound_decode", "input_bound_cpu", "input_bound_disk")
PAIRS = [
    *[(one, other) for one in INPUT for other in ("sync_bound", "checkpoint_bound", *SLOWING)],
    ("sync_bound", "checkpoint_bound"), ("checkpoint_bound", "thermal_throttle"),
    ("checkpoint_bound", "one_device_slow"), ("sync_bound", "batch_too_small"), ("sync_bound", "device_lost"),
    ("checkpoint_bound", "batch_too_small"), ("checkpoint_bound", "device_lost"),
]  # fmt: skip


@pytest.mark.parametrize("told_roof", [True, False], ids=["roof", "no roof"])
@pytest.mark.parametrize("pair", PAIRS, ids=" + ".join)
def test_of_two_causes_the_dearer_is_first_and_both_are_told(pair, told_roof):
    for dear, cheap in (pair, pair[::-1]):
        rows = mixture({dear: 0.375, cheap: 0.125}, noise=0.05, told_roof=told_roof)
        found = costs(rows)
        if not told_roof and dear == "batch_too_small":
            assert {dear, cheap} <= found.keys()  # how much a larger batch would give only a roof can tell
            continue
        assert next(iter(found)) == dear, found
        assert cheap in found, found
        if told_roof:
            assert found[dear] == pytest.approx(0.375 * 792, rel=0.2)
            assert found[cheap] == pytest.approx(0.125 * 792, rel=0.5)


def test_threads_that_were_asked_for_and_do_not_decode_are_named():
    told = diagnose(change(starved(), of_run(decode_threads_asked=32))).to_json()
    assert told["advice"].startswith("32 decode threads are asked for, 4 decode: ")


def test_one_wild_speed_changes_little():
    rows = healthy()
    rows[30]["images_per_second"] *= 50
    assert diagnose(rows).images_per_second == pytest.approx(diagnose(healthy()).images_per_second, rel=0.05)


def test_those_who_wait_for_a_slow_device_do_not_wait_for_each_other():
    assert "sync_bound" not in costs(change(one_slow(), of_run(sync_wait_share=0.38)))


def test_who_is_idle_by_chance_is_not_slow():
    for seed in range(20):
        assert set(costs(starved(seconds=12, seed=seed))) == {"input_bound_decode"}


def test_a_clock_that_falls_while_idle_is_neither_slow_nor_hot():
    rows = change(starved(), of_gpus(temperature_c=85, util=mostly_idle_or_busy))
    rows = change(rows, lambda _, row: [e.update(sm_clock_mhz=875 if e["util"] > 50 else 324) for e in row["gpus"]])
    assert set(costs(rows)) == {"input_bound_decode"}


def test_costs_add_up_to_what_is_missing_to_the_roof():
    rows = mixture({"input_bound_decode": 0.3, "checkpoint_bound": 0.1, "device_lost": 0.0625})
    found = diagnose(rows)
    missing = 792 - found.images_per_second
    assert sum(item.cost_images_per_second for item in found.ranked) == pytest.approx(missing, rel=0.02)


@pytest.mark.parametrize("name", CASES)
def test_values_that_are_missing_here_and_there_change_nothing(name):
    """A tenth of all values, and some samples; in a third of the cases in any order."""
    for seed in range(8):
        chance = random.Random(seed)
        rows = [full_of_holes(row, chance) for row in CASES[name](noise=0.05) if chance.random() > 0.05]
        if seed % 3 == 0:
            chance.shuffle(rows)
        assert verdict(rows) == name, (seed, diagnose(rows).to_json())


def full_of_holes(value, chance):
    if isinstance(value, dict):
        return {key: None if chance.random() < 0.1 else full_of_holes(item, chance) for key, item in value.items()}
    return [full_of_holes(item, chance) for item in value] if isinstance(value, list) else value


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-10, 10**6) | st.text(max_size=3),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.sampled_from(["util", "idle"]), children),
    max_leaves=4,
)
FIELDS_OF_A_SAMPLE = (*healthy(seconds=1)[0], "gpus_expected", "activity")
ODD = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS_OF_A_SAMPLE, ANYTHING)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(ODD)
def test_odd_values_are_survived(rows):
    found = diagnose(rows).to_json()
    json.dumps(found, allow_nan=False)
    assert found["verdict"] in VERDICTS
    assert found["verdict"] == found["ranked"][0]["verdict"]
    assert all(0 < item["confidence"] <= 1 and item["cost_images_per_second"] >= 0 for item in found["ranked"])
    assert found["advice"]


def test_heat_is_told_of_where_others_take_all_that_is_lost():
    rows = change(starved(), of_gpus(throttle="thermal", temperature_c=88, sm_clock_mhz=600))
    assert list(costs(rows)) == ["input_bound_decode", "thermal_throttle"]


def test_threads_are_less_sure_where_the_disk_is_not_known():
    rows = change(starved(threads=32, idle=60), of_run(disk={"read_mb_s": 128}))
    found = diagnose(rows).ranked[0]
    assert (found.verdict, found.confidence < 0.8) == ("input_bound_decode", True)


def test_a_hang_in_all_samples_is_as_sure_as_one_that_was_seen_to_begin():
    rows = change(healthy(), of_run(steps=5000, images_per_second=0, **BUSY))
    assert diagnose(rows).ranked[0].confidence > 0.85
    assert "images/s" not in " ".join(diagnose(pausing(healthy(), 20, 60, 100)).to_json()["evidence"])
    not_begun = change(healthy(), of_run(steps=0, images_per_second=0, **BUSY))
    assert diagnose(not_begun).ranked[0].confidence < 0.7  # the first step may take minutes


def test_at_a_roof_that_nobody_knows_the_next_step_is_to_measure_it():
    found = diagnose(without(healthy(), ROOF))
    assert found.verdict == "device_bound"
    assert "tune" in found.ranked[0].advice


def test_ranked_by_cost():
    for case in CASES.values():
        ranked = [finding.cost_images_per_second for finding in diagnose(case()).ranked]
        assert ranked == sorted(ranked, reverse=True)


def test_fewer_samples_are_less_sure():
    confidences = [diagnose(out_of_cpu(seconds=seconds)).ranked[0].confidence for seconds in (1, 4, 10)]
    assert confidences == sorted(set(confidences))


def test_an_hour_of_sixteen_gpus_takes_seconds():
    rows = healthy(seconds=3600)
    began = time.process_time()
    assert verdict(rows) == "device_bound"
    assert time.process_time() - began < 8
