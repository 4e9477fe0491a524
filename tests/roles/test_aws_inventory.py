"""inventory/aws: what shall be, a file for each region, a row for each instance type."""

import json
import re
import shutil
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
OPTIONAL = {"measured_images_per_second", "measured_source", "clocks_mhz", "ecc"}


def test_every_row_is_complete():
    for name, row in RUNNABLE.items():
        assert set(row) - OPTIONAL == KEYS, name
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


def test_hosts_are_names_and_nothing_else():
    trainers = yaml.safe_load((AWS / "hosts.yml").read_text())["trainers"]["children"]
    assert set(trainers) == {path.stem for path in REGION_FILES}
    for group in trainers.values():
        assert group is None or set(group) == {"hosts"}
        assert all(facts is None for facts in (group or {"hosts": {}})["hosts"].values())


def test_only_the_wiring_reads_region_facts():
    facts = re.compile(rf"\b({'|'.join(yaml.safe_load(REGION_FILES[0].read_text()))})\b")
    for path in PROJECT.glob("roles/**/*.yml"):
        assert not facts.search(path.read_text()), path


def settings(*names, inventory=AWS, **facts):
    """What the inventory makes of facts that roles have found, for trainer-1."""
    command = [
        TOOLS / "ansible", "trainer-1", "-i", inventory / "hosts.yml", "-c", "local", "-m", "ansible.builtin.debug",
        "-a", f"msg={{{{ [{', '.join(names)}] | to_json }}}}", "-e", json.dumps(facts),
    ]
    plain = {"ANSIBLE_LOAD_CALLBACK_PLUGINS": "1", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline"}
    done = subprocess.run(command, env=environment(**plain), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout[done.stdout.index("{"):])["msg"]
    return json.loads(found) if isinstance(found, str) else found


def test_each_region_has_a_price_limit_of_its_own(tmp_path):
    """trainer-1 is at home in us-west-2: its limit is nobody else's."""
    shutil.copytree(AWS, tmp_path / "aws")
    for region, usd in (("us_west_2", 3), ("eu_west_1", 5.5)):
        path = tmp_path / f"aws/group_vars/aws_region_{region}.yml"
        path.write_text(path.read_text().replace("region_max_price_usd:", f"region_max_price_usd: {usd}"))
    names = [f"spot_{role}_max_price_by_region_usd" for role in ("market", "instance")]
    limits = {"us-west-2": 3, "eu-west-1": 5.5}
    found = settings(*names, "spot_instance_max_price_usd", inventory=tmp_path / "aws")
    assert found == [limits, limits, None]


def monitored(folder, hosts):
    """What the inventory with these monitors makes of trainer-1's machine: its page, the way in, Prometheus's jobs."""
    text = (AWS / "hosts.yml").read_text()
    (folder / "hosts.yml").write_text(text.replace("\nmonitors:\n  hosts:", f"\nmonitors:\n  hosts: {hosts}"))
    (folder / "group_vars").symlink_to(AWS / "group_vars")
    machine = {"ansible.builtin.set_fact": {"spot_instance_found": {"id": "i-1", "private_address": "172.31.4.4"}}}
    trainer = "{{ [trainer_monitor_address, trainer_monitor_port, spot_instance_monitor_cidrs] | to_json }}"
    plays = [
        {"hosts": "trainers", "tasks": [machine, {"ansible.builtin.debug": {"msg": trainer}}]},
        {"hosts": "monitors", "tasks": [{"ansible.builtin.debug": {"msg": "{{ prometheus_jobs | to_json }}"}}]},
    ]
    here = {"gather_facts": False, "connection": "local"}
    (folder / "play.yml").write_text(json.dumps([play | here for play in plays]))
    command = [TOOLS / "ansible-playbook", "-i", folder / "hosts.yml", folder / "play.yml"]
    as_json = environment(ANSIBLE_CALLBACK_RESULT_FORMAT="json")
    done = subprocess.run(command, env=as_json, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [json.loads(found)["msg"] for found in re.findall(r"=> (\{\n.*?^\})", done.stdout, re.MULTILINE | re.DOTALL)]
    return [json.loads(found) if isinstance(found, str) else found for found in said]


def test_who_watches_asks_each_trainer_that_has_a_machine_and_is_let_through(tmp_path):
    trainer, jobs = monitored(tmp_path, "{watcher: {monitor_address: 172.31.9.9}}")
    assert trainer == ["172.31.4.4", 8470, ["172.31.9.9/32"]]
    assert jobs == [{"job": "trainer", "targets": ["172.31.4.4:8470"]}]


def test_without_a_monitor_the_page_is_on_the_loopback(tmp_path):
    (trainer,) = monitored(tmp_path, "{}")
    assert trainer == ["127.0.0.1", 8470, []]


def instance(name, since, until, usd):
    """A row of the fact `bill`."""
    return {
        "kind": "instance", "id": name, "region": "us-west-2", "zone": "us-west-2a", "from": since, "until": until,
        "instance_type": "p2.xlarge", "market": "spot", "usd": usd, "on_demand_usd": 3 * usd, "usd_per_hour": 0.27,
        "on_demand_usd_per_hour": 0.9,
    }


def test_the_trainer_is_told_what_its_machine_costs_and_what_had_ended_before():
    stored = {"region": "us-west-2", "zone": None, "from": 100}
    rows = [
        stored | {"kind": "snapshot", "id": "snap-1", "until": None, "usd": 5.0, "on_demand_usd": 5.0},
        stored | {"kind": "copy", "id": "snap-1", "until": None, "usd": 3.0, "on_demand_usd": 3.0},
        stored | {"kind": "volume", "id": "vol-1", "until": 200, "usd": None, "on_demand_usd": None},
        instance("i-1", 100, 200, 1.5), instance("i-2", 300, None, 0.5),
    ]
    (price,) = settings("trainer_price", bill={"rows": rows}, spot_instance_found={"id": "i-2"})
    assert price == {
        "instance_id": "i-2", "instance_type": "p2.xlarge", "region": "us-west-2", "zone": "us-west-2a",
        "market": "spot", "launched_at": 300, "price_usd_per_hour": 0.27, "on_demand_usd_per_hour": 0.9,
        "spent_before_usd": 4.5, "spent_before_on_demand_usd": 7.5, "budget_usd": None,
    }  # fmt: skip


def test_without_a_machine_there_is_no_price():
    assert settings("trainer_price", spot_instance_found={}) == [{}]


def test_a_kept_volume_is_a_second_place_only_for_what_is_on_it():
    assert settings("checkpoints_are_kept", data_volume_keep=True) == [False]
    assert settings("checkpoints_are_kept", data_volume_keep=True, trainer_runs_directory="/data/run") == [True]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_machine_that_has_no_second_place_does_not_power_itself_off(enabled):
    assert settings("trainer_power_off", checkpoint_mirror_enabled=enabled) == [enabled]
