"""inventory/aws: what shall be, a file for each region, a row for each instance type."""

import json
import subprocess

import pytest
import yaml
from market_rules import PROFILES, TABLE
from playing import PROJECT, TOOLS, environment

AWS = PROJECT / "inventory/aws"
REGION_FILES = sorted(AWS.glob("group_vars/aws_region_*.yml"))
RUNNABLE = {name: row for name, row in PROFILES.items() if "refused" not in row}
# What each wheel has machine code for: compute capabilities.
WHEELS = {"mxnet-cu102": (3.0, 5.0, 6.0, 7.0, 7.5), "mxnet-cu112": (5.0, 6.0, 7.0, 8.0, 8.6)}
KEYS = {
    "gpus", "gpu_model", "compute_capability", "gpu_memory_mb", "vcpus", "memory_gb", "architecture", "driver_branch",
    "mxnet_wheel", "disk_naming", "roof_images_per_second", "roof_source", "interruptions_per_hour",
}  # fmt: skip


def test_every_row_is_complete():
    for name, row in RUNNABLE.items():
        assert set(row) - {"measured_images_per_second", "measured_source"} == KEYS, name
    assert all(set(row) == {"refused"} for name, row in PROFILES.items() if name not in RUNNABLE)
    assert next(iter(PROFILES)) == "p2.16xlarge"


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_wheel_has_code_for_the_gpu_and_the_driver_runs_it(name):
    row = RUNNABLE[name]
    capability = row["compute_capability"]
    assert any(int(code) == int(capability) and code <= capability for code in WHEELS[row["mxnet_wheel"]])
    assert row["driver_branch"] == (470 if capability < 5 else 535)
    assert row["disk_naming"] in ("xen", "nvme")
    assert row["architecture"] == "x86_64"


def test_roofs_of_one_gpu_model_grow_with_the_number_of_gpus():
    for name, row in RUNNABLE.items():
        single = min(
            other["roof_images_per_second"] / other["gpus"]
            for other in RUNNABLE.values() if other["gpu_model"] == row["gpu_model"]
        )
        assert row["roof_images_per_second"] / row["gpus"] <= 1.05 * single, name


def test_the_shipped_prices_are_of_types_that_have_a_row():
    assert set(TABLE["usd_per_hour"]) == set(RUNNABLE)


@pytest.mark.parametrize("path", REGION_FILES, ids=lambda path: path.stem)
def test_region_files_hold_the_same_facts_and_carry_their_region_s_name(path):
    facts = yaml.safe_load(path.read_text())
    assert list(facts) == list(yaml.safe_load(REGION_FILES[0].read_text()))
    assert path.stem == "aws_region_" + facts["region_name"].replace("-", "_")
    assert all(name.startswith("region_") for name in facts)


def test_a_trainer_gets_its_region_s_facts():
    command = [TOOLS / "ansible-inventory", "-i", AWS, "--host", "trainer-1"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["region_name"] == "us-west-2"
    assert done.stderr == ""


def test_hosts_are_names_and_nothing_else():
    trainers = yaml.safe_load((AWS / "hosts.yml").read_text())["trainers"]["children"]
    assert set(trainers) == {path.stem for path in REGION_FILES}
    for group in trainers.values():
        assert group is None or set(group) == {"hosts"}
        assert all(facts is None for facts in (group or {"hosts": {}})["hosts"].values())


def test_only_the_wiring_reads_region_facts():
    for path in PROJECT.glob("roles/**/*.yml"):
        assert "region_" not in path.read_text().replace("spot_market_regions", ""), path
