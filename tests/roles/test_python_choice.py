"""Which Python MXNet gets, and which system packages are said to be missing."""

import sys

import pytest
from playing import ROLES

sys.path.insert(0, str(ROLES / "mxnet_runtime" / "module_utils"))
from python_choice import choose, describe, probe  # noqa: E402
from system_libraries import missing_packages  # noqa: E402


def python(version, has_venv=True):
    return {"version": version, "path": f"/usr/bin/python{version}", "has_venv": has_venv}


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        ({"python3.11": python("3.11"), "python3.12": python("3.12")}, "3.11"),
        ({"python3.12": python("3.12"), "python3": python("3.13")}, "3.12"),
        ({"python3": python("3.12")}, "3.12"),
        ({"python3.11": python("3.11", has_venv=False), "python3.12": python("3.12")}, "3.12"),
        ({"python3.11": python("3.11", has_venv=False)}, "3.11"),
        ({"python3": python("3.13")}, None),
        ({}, None),
    ],
)
def test_the_first_usable_python_is_chosen(there, chosen):
    found, _ = choose(("python3.11", "python3.12", "python3"), probe=there.get)
    assert (found and found["version"]) == chosen


def test_names_after_a_good_one_are_not_tried():
    _, probes = choose(("python3.11", "python3.12"), probe={"python3.11": python("3.11")}.get)
    assert list(probes) == ["python3.11"]


def test_the_message_names_each_that_was_tried():
    _, probes = choose(("python3.11", "python3"), probe={"python3": python("3.9")}.get)
    assert describe(probes) == "python3.11 (not there), python3 (3.9)"


def test_probe_runs_the_interpreter():
    assert probe(sys.executable)["version"] == "{}.{}".format(*sys.version_info)
    assert probe("no-such-python") is None


@pytest.mark.parametrize("script", ["echo nonsense", "exit 1", "echo 3.11; echo /x; echo True; exit 3"])
def test_a_program_that_is_no_python_is_none(tmp_path, script):
    # A version manager's stand-in for a version that is not active is such a program.
    fake = tmp_path / "python3.11"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    assert probe(str(fake)) is None


def test_missing_libraries_are_named_by_their_package():
    assert missing_packages({"libc.so.6": "libc6", "libnone.so.1": "libnone1"}) == ["libnone1"]
