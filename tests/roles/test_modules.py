"""The roles' own modules, each called as Ansible calls it."""

import json
import os
import subprocess
import sys

import pytest
from playing import ROLES, TOOLS, environment


def call(module, role, arguments=None, check=False, **more):
    """The result of a module on this machine."""
    command = [
        TOOLS / "ansible", "localhost", "-c", "local", "-m", module, "-a", json.dumps(arguments) if arguments else "",
        "-e", f"ansible_python_interpreter={json.dumps(sys.executable)}", *(["--check"] if check else []),
    ]
    places = {
        "ANSIBLE_LIBRARY": str(ROLES / role / "library"), "ANSIBLE_MODULE_UTILS": str(ROLES / role / "module_utils"),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1", "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline",
    }
    done = subprocess.run(command, env=environment(**places, **more), capture_output=True, text=True, check=False)
    return json.loads(done.stdout[done.stdout.index("{"):])


@pytest.fixture
def fake_apt(tmp_path):
    """PATH with an apt-get that knows no package."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "apt-get").write_text('#!/bin/sh\necho "E: Unable to locate package $3" >&2\nexit 100\n')
    (folder / "apt-get").chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def data_set(tmp_path):
    return {"package": "dataset-none", "folder": "usr/share/datasets/none", "directory": str(tmp_path / "debian")}


def test_a_system_that_lacks_the_package_is_told_the_other_ways(fake_apt, tmp_path):
    result = call("debian_dataset", "trainer", data_set(tmp_path), **fake_apt)
    for part in ("dataset-none", "Unable to locate", "-e trainer_dataset=", "-e trainer_data_train="):
        assert part in result["msg"]


def test_a_system_without_apt_is_told_the_other_ways(tmp_path):
    result = call("debian_dataset", "trainer", data_set(tmp_path), PATH=str(tmp_path))
    for part in ("apt-get", "-e trainer_dataset=", "-e trainer_data_train="):
        assert part in result["msg"]


def test_check_mode_asks_no_apt(fake_apt, tmp_path):
    result = call("debian_dataset", "trainer", data_set(tmp_path), check=True, **fake_apt)
    assert result["changed"]
    assert not (tmp_path / "debian").exists()


def test_a_data_set_that_is_there_needs_no_apt(fake_apt, tmp_path):
    unpacked = tmp_path / "debian/usr/share/datasets/none"
    unpacked.mkdir(parents=True)
    result = call("debian_dataset", "trainer", data_set(tmp_path), **fake_apt)
    assert (result["changed"], result["path"]) == (False, str(unpacked))


def test_the_host_survey_finds_a_python():
    result = call("mxnet_host", "mxnet_runtime")
    assert subprocess.run([result["python"], "-c", "import venv, ensurepip"], check=False).returncode == 0


def environment_arguments(path):
    return {"path": str(path), "python": sys.executable, "packages": ["pip"], "constraints": ""}


def test_an_environment_whose_mxnet_does_not_compute_is_a_failure_and_gets_no_stamp(tmp_path):
    result = call("mxnet_venv", "mxnet_runtime", environment_arguments(tmp_path / "mxnet"))
    assert "Failed to compute a product with MXNet" in result["msg"]
    assert not (tmp_path / "mxnet/.complete").exists()


def test_what_cannot_be_installed_is_named(tmp_path):
    arguments = environment_arguments(tmp_path / "mxnet") | {"packages": ["./no-such-package"]}
    result = call("mxnet_venv", "mxnet_runtime", arguments)
    assert "Failed to install MXNet" in result["msg"]
    assert "no-such-package" in result["msg"]


@pytest.mark.parametrize("python", [None, "#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 1\n"])
def test_a_half_made_or_broken_environment_is_noticed(tmp_path, python):
    (tmp_path / "mxnet/bin").mkdir(parents=True)
    (tmp_path / "mxnet/.complete").write_text("made from something else")
    if python:
        (tmp_path / "mxnet/bin/python").write_text(python)
        (tmp_path / "mxnet/bin/python").chmod(0o755)
    assert call("mxnet_venv", "mxnet_runtime", environment_arguments(tmp_path / "mxnet"), check=True)["changed"]
