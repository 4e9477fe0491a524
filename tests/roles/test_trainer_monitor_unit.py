"""The options of the monitor's unit: those of the settings, as the command knows them."""

import ast
import subprocess
import sys

import jinja2
import pytest
import yaml
from playing import PROJECT, ROLES

ROLE = ROLES / "trainer"
DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
OPTIONS = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__trainer_monitor_options"]


def options(**settings):
    return ast.literal_eval(jinja2.Environment(autoescape=False).from_string(OPTIONS).render(DEFAULTS | settings))


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({}, []),
        ({"trainer_monitor_token_file": "/etc/trainer/token"}, ["--token-file /etc/trainer/token"]),
        ({"trainer_monitor_tls_certificate": "/c.pem", "trainer_monitor_tls_key": "/k.pem"},
         ["--tls-certificate /c.pem", "--tls-key /k.pem"]),
    ],
)  # fmt: skip
def test_token_and_certificate_are_told_to_the_monitor(settings, more):
    assert options(**settings) == ["--address 127.0.0.1", "--port 8470", *more]


def test_the_monitor_takes_these_options_and_the_unit_has_them(tmp_path):
    every = options(
        trainer_monitor_token_file=str(tmp_path / "none"), trainer_monitor_tls_certificate="/c.pem",
        trainer_monitor_tls_key="/k.pem",
    )  # fmt: skip
    (tmp_path / "config.toml").write_text('run_directory = "/runs/r"\n')
    command = [sys.executable, "-m", "trainer", "monitor", "--run", str(tmp_path)]
    command += [word for option in every for word in option.split()]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 78 and "--token-file must be a readable file" in done.stderr, done.stderr
    assert "{{ __trainer_monitor_options | join(' ') }}" in (ROLE / "templates/trainer-monitor.service.j2").read_text()
