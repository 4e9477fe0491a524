"""The model of a host: its formulas, its file, and the article's machine."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.errors import ConfigError
from trainer.tune.figures import EXPLORE, DoesNotFitError, Effort, Probe
from trainer.tune.twin import Twin, TwinProber, load_twin

VALUES = {
    "vcpus": 8, "gpus": 2, "gpu_memory_mb": 1000, "decode_images_per_second_per_thread": 100,
    "decode_parallel_fraction": 0.9, "memory_mb_fixed": 200, "memory_mb_per_image": 10, "disk_mb_per_second": 50,
    "image_kb": 100, "noise": 0.0, "gpu_images_per_second": {4: 80.0, 8: 100.0, 16: 90.0},
}  # fmt: skip


def twin(**changes):
    return Twin(**(VALUES | changes))


@pytest.mark.parametrize(
    ("images", "rate"), [(0, 0), (1, 20), (2, 40), (4, 80), (6, 90), (8, 100), (12, 95), (16, 90), (17, 90), (999, 90)]
)
def test_the_rate_is_linear_between_points_flat_above_and_through_the_origin(images, rate):
    assert twin().rate(images) == pytest.approx(rate)


def test_a_table_of_one_point():
    one = twin(gpu_images_per_second={8: 100.0})
    assert [one.rate(4), one.rate(8), one.rate(80)] == [50, 100, 100]


@pytest.mark.parametrize(("threads", "rate"), [(1, 100), (4, 100 / 0.325), (8, 100 / 0.2125), (99, 100 / 0.2125)])
def test_decoding_follows_amdahls_law_up_to_the_processors(threads, rate):
    assert twin().decode(threads) == pytest.approx(rate)


def test_the_slowest_part_decides():
    assert twin().throughput(32, 1) == pytest.approx(100)
    assert twin().throughput(2, 8) == pytest.approx(40)
    assert twin(disk_mb_per_second=5).throughput(32, 8) == pytest.approx(50)


def test_a_batch_fits_up_to_the_last_megabyte():
    assert twin().fits(160)
    assert not twin().fits(162)


def test_a_probe_takes_twenty_seconds_and_what_it_measures():
    prober = TwinProber(twin(), 0, 600)
    measured = prober(Probe("training", 32, 8, EXPLORE, 0.0))
    assert prober.spent_seconds == 20 + 2 * len(measured.rates)
    assert measured.memory_mb == 360
    with pytest.raises(DoesNotFitError):
        prober(Probe("network", 162, 0, EXPLORE, 0.0))


def test_the_seed_fixes_the_noise():
    def rates(seed):
        return TwinProber(twin(noise=0.05), seed, 600)(Probe("input", 0, 4, Effort(30), 0.05)).rates

    assert rates(1) == rates(1) != rates(2)
    assert len(rates(1)) >= 11  # so many it takes for an interval of 3 %


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("vcpus = 0", "vcpus must be a whole number above 0, got 0"),
        ("vcpus = 2.5", "vcpus must be a whole number above 0, got 2.5"),
        ("noise = -1", "noise must be a number of 0 or more, below 0.3, got -1"),
        ("decode_parallel_fraction = 1.5", "decode_parallel_fraction must be a number from 0 to 1, got 1.5"),
        ("disk_mb_per_seconds = 1", "disk_mb_per_seconds must be a known key (did you mean disk_mb_per_second?)"),
        ("memory_mb_per_image = nan", "memory_mb_per_image must be a number above 0, got nan"),
        ("memory_mb_fixed = '200'", "memory_mb_fixed must be a number of 0 or more, got '200'"),
        ("image_kb = true", "image_kb must be a number above 0, got True"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(tmp_path, change, message):
    path = tmp_path / "twin.toml"
    key = change.split(" ")[0]
    lines = [f"{name} = {value}" for name, value in VALUES.items() if name not in (key, "gpu_images_per_second")]
    path.write_text("\n".join([*lines, change, "[gpu_images_per_second]", "8 = 100"]))
    with pytest.raises(ConfigError) as caught:
        load_twin(path)
    assert any(problem.startswith(f"{path}: {message}") for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("table", "message"),
    [("", "gpu_images_per_second must be a table"), ("x = 1", "gpu_images_per_second[x] must be"),
     ("8 = -1", "gpu_images_per_second[8] must be"), ("0 = 1", "gpu_images_per_second[0] must be")],
)  # fmt: skip
def test_a_wrong_table_is_named(tmp_path, table, message):
    path = tmp_path / "twin.toml"
    lines = [f"{name} = {value}" for name, value in VALUES.items() if name != "gpu_images_per_second"]
    path.write_text("\n".join([*lines, "[gpu_images_per_second]", table]))
    with pytest.raises(ConfigError, match=f"twin.toml: {message.replace('[', '.').replace(']', '.')}"):
        load_twin(path)


def test_missing_keys_are_all_named(tmp_path):
    path = tmp_path / "twin.toml"
    path.write_text("vcpus = 4\n")
    with pytest.raises(ConfigError) as caught:
        load_twin(path)
    assert len(caught.value.problems) == 10
    assert "gpus must be a whole number above 0, got nothing" in str(caught.value)


def tune(*arguments):
    command = [sys.executable, "-m", "trainer", "tune", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_articles_machine_gives_the_articles_figures():
    done = tune("--twin", "p2.16xlarge", "--json", "--seed", 3)
    found = json.loads(done.stdout)
    assert found["start"]["images_per_second"] == pytest.approx(400, rel=0.02)
    assert found["batch_alone"] == pytest.approx(1, abs=0.02)
    assert found["largest_batch"] == found["batch_size"] == 1408
    assert found["roof_images_per_second"] == pytest.approx(16 * 49.48, rel=0.01)
    assert found["images_per_second"] > 0.98 * 16 * 49.48
    assert found["decode_threads"] <= 32
    assert found["sufficient_batch"] <= 512
    assert found["credit"]["decode_threads"] > 1.5 > found["credit"]["batch_size"]
    assert found["simulated_seconds"] <= 600
    article = load_twin(Path("p2.16xlarge"))
    assert 700 <= article.throughput(1408, 32) <= 792


def test_the_same_seed_prints_the_same_and_a_person_can_read_it(tmp_path):
    first, second = (tune("--twin", "p2.16xlarge", "--seed", 1) for _ in range(2))
    assert first.stdout == second.stdout
    assert "decode threads: x1.5" in first.stdout
    assert re.search(r"a larger batch alone: x(0\.99|1\.0)", first.stdout)
    assert "network alone, batch 1,408" in first.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --config or --twin must be given, got neither"),
        (["--twin", "p2.16xlarge", "--config", "a.toml"], "either --config or --twin must be given, got both"),
        (["--twin", "none.toml"], "none.toml: must be readable TOML, or one of p2.16xlarge"),
        (["--twin", "p2.16xlarge", "--batch", "small"], '--batch must be "largest" or "sufficient", got "small"'),
        (["--twin", "p2.16xlarge", "--reserve", "1"], "--reserve must be a share from 0 to below 1, got 1"),
        (["--twin", "p2.16xlarge", "--budget-seconds", "30"], "--budget-seconds must be at least 56 here, got 30"),
    ],
)
def test_a_wrong_option_is_named(arguments, message):
    done = tune(*arguments)
    assert done.returncode == 78
    assert message in done.stderr
