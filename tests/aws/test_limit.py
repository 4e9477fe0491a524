"""--limit: each playbook looks at and names the host that is meant, and no other run's things."""

import json
import os
import re
import shutil

import pytest
from test_bill import KIT

from tests.rehearsal import market
from tests.rehearsal.playing import PROJECT, control, playbook

OTHER, MEANT = "alpha", "beta"
# Each playbook, whether a machine of the run that is meant is there, and the exit code.
PLAYS = [
    ("plan.yml", (), False, 0),
    pytest.param("train.yml", ("--check",), False, 0, marks=pytest.mark.slow),
    ("status.yml", (), True, 0),
    ("stop.yml", (), False, 0),
    pytest.param("rebuild.yml", ("--check",), False, 0, marks=pytest.mark.slow),
    ("image.yml", ("--check",), False, 0),
    ("retire.yml", (), True, 2),
    pytest.param("retire.yml", ("--check",), True, 0, marks=pytest.mark.slow),
    ("dataset.yml", ("--check",), False, 0),
]
SETTINGS = market.settings(
    data_set_source="s3://pictures/shapes", retire_timeout_seconds=1, status_timeout_seconds=1, ansible_timeout=1
)


def machine(name):
    return {
        "region": market.CHEAP, "zone": f"{market.CHEAP}a", "instance_type": market.TYPE, "market": "spot",
        "launched": "-3h", "tags": KIT | {"run": name, "Name": name},
    }  # fmt: skip


def names(prefix):
    return [f"{prefix}{name}" for name in (OTHER, MEANT)]


def more_hosts(folder, groups):
    """An inventory/aws whose hosts.yml says so."""
    copy = folder / "inventory/aws"
    shutil.copytree(PROJECT / "inventory/aws", copy, ignore=lambda *_: ["aws_ec2.yml"])
    (copy / "hosts.yml").write_text(json.dumps(groups))
    (folder / "trainer").symlink_to(PROJECT / "trainer")
    return str(copy)


@pytest.mark.parametrize(("name", "options", "has_machine", "code"), PLAYS, ids=str)
def test_only_the_host_that_is_named_is_meant(aws, calls, tmp_path, name, options, has_machine, code):
    prefix = "dataset-" if name == "dataset.yml" else ""
    trainers, data_sets = ({host: {} for host in names(kind)} for kind in ("", "dataset-"))
    groups = {"aws_region_us_west_2": {"hosts": trainers}, "data_sets": {"hosts": data_sets}}
    inventory = more_hosts(tmp_path, groups)
    there = [machine(name) for name in (*names(""), *names("dataset-")) if OTHER in name or has_machine]
    with aws(market.scenario(timing=[], addresses=["127.0.0.9"], instances=there)):
        done = playbook(name, SETTINGS, tmp_path, "-i", inventory, "--limit", prefix + MEANT, *options)
        state = control(os.environ["AWS_ENDPOINT_URL"], "state")
    assert done.returncode == code, done.stdout + done.stderr
    assert re.findall(r"^(\S+) +: ok=", done.stdout, re.MULTILINE) == [prefix + MEANT]
    theirs = [row["id"] for rows in state.values() for row in rows if OTHER in row["tags"].get("run", "")]
    asked = [json.dumps(call["parameters"]) for call in calls()]
    assert theirs and [words for words in asked if any(name in words for name in (OTHER, *theirs))] == []
    assert any(MEANT in words for words in asked) or name == "plan.yml"
    assert [path.name for path in (tmp_path / "run").glob("*") if OTHER in path.name] == []
