"""Plays and surveys against the double of AWS."""

import json
import subprocess

import pytest
import role_modules  # noqa: F401
from permissions import document

from tests.fakes.aws.scenario import Scenario
from tests.fakes.aws.server import running
from tests.roles.playing import PROJECT, TOOLS, environment

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "double", "AWS_SECRET_ACCESS_KEY": "double", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def aws(tmp_path, monkeypatch):
    """`with aws(scenario):` for as long as it lasts, this process and its children meet that double.

    `with aws(scenario, "launch"):` they may do there what docs/iam/launch.json allows, under its conditions.
    """

    def use(scenario, *documents):
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
        policies = {CREDENTIALS["AWS_ACCESS_KEY_ID"]: [document(name) for name in documents]}
        world = Scenario.model_validate(scenario | ({"policies": policies} if documents else {}))
        return _Environment(running(world, tmp_path / "calls.jsonl"), monkeypatch)

    return use


class _Environment:
    def __init__(self, double, monkeypatch):
        self._double, self._monkeypatch = double, monkeypatch

    def __enter__(self):
        for name, value in (CREDENTIALS | {"AWS_ENDPOINT_URL": self._double.__enter__()}).items():
            self._monkeypatch.setenv(name, value)

    def __exit__(self, *error):
        self._monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        return self._double.__exit__(*error)


@pytest.fixture
def calls(tmp_path):
    """The calls that the double has answered."""
    return lambda: [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]


@pytest.fixture
def play(tmp_path):
    """`play("plan.yml", "name=value", "--check")` runs a playbook, with inventory/aws unless told otherwise."""

    def run(playbook, *arguments, inventory=PROJECT / "inventory/aws"):
        command = [TOOLS / "ansible-playbook", PROJECT / "playbooks" / playbook, "-i", inventory]
        for argument in arguments:
            command += [argument] if argument.startswith("-") else ["-e", argument]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip

    return run
