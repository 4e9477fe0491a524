"""The trainer's units are installed in one go, each once systemd has judged it."""

import os

import pytest
from playing import call, program

UNITS = {"a.service": "[Service]\nExecStart=/bin/true\n", "b.timer": "[Timer]\nOnBootSec=1\n"}


@pytest.fixture
def install(tmp_path):
    """A systemd-analyze that finds fault with every unit in which a word is `wrong`."""
    (tmp_path / "units").mkdir()
    program(tmp_path / "bin/systemd-analyze", 'for last; do :; done; ! grep wrong "${last%:*}" >&2')
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def install(check=False, **units):
        arguments = {"directory": str(tmp_path / "units"), "units": UNITS | units}
        return call("trainer_units", "trainer", arguments, check=check, **environment)

    return install


def texts(tmp_path):
    return {path.name: path.read_text() for path in (tmp_path / "units").iterdir()}


def test_they_are_predicted_installed_for_all_to_read_and_then_left_alone(install, tmp_path):
    assert install(check=True)["changed"]
    assert texts(tmp_path) == {}
    assert install()["changed"]
    assert texts(tmp_path) == UNITS
    assert (tmp_path / "units/a.service").stat().st_mode & 0o777 == 0o644
    again = install()
    assert (again["changed"], again["files"]) == (False, [])
    assert install(check=True, **{"b.timer": "[Timer]\n"})["files"] == [f"{tmp_path}/units/b.timer"]


def test_what_systemd_finds_at_fault_replaces_nothing(install, tmp_path):
    install()
    result = install(**{"b.timer": "[Timer]\nwrong\n"})
    assert f"Failed to install {tmp_path}/units/b.timer: wrong" in result["msg"]
    assert texts(tmp_path) == UNITS
