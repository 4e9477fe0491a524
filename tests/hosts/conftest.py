"""Test hosts and disks for the tests of the roles; skipped, with the reason, where none can run."""

import subprocess

import driver_host
import host as hosts
import image
import layers
import pytest


@pytest.fixture(scope="session")
def base_image():
    reason = image.why_not()
    if reason:
        pytest.skip(reason)
    [base] = layers.bare()
    return base


@pytest.fixture(scope="module")
def host(request, tmp_path_factory):
    """One host for the tests of a file: a fresh one, or what the file's mark says how to boot."""
    if mark := request.node.get_closest_marker("boots"):
        booted = mark.kwargs["by"](request.getfixturevalue("runtime_layers"), tmp_path_factory.mktemp("host"))
    else:
        booted = hosts.up([request.getfixturevalue("base_image")])
    yield booted
    hosts.down(booted)


@pytest.fixture
def fresh_host(base_image):
    booted = hosts.up([base_image])
    yield booted
    hosts.down(booted)


@pytest.fixture(scope="module")
def k80s(host, tmp_path_factory):
    """Gives the file's host GPUs, and packages that bring their driver."""
    driver_host.give_gpus(host, tmp_path_factory.mktemp("packages"))


@pytest.fixture
def disk_image(tmp_path):
    """`disk_image("data", 64, "mkfs.ext4", "-q")`: a file of so many MiB, given to the command (or left blank)."""

    def make(name, mebibytes, *command):
        path = tmp_path / f"{name}.img"
        with open(path, "wb") as file:
            file.truncate(mebibytes << 20)
        if command:
            subprocess.run([*command, str(path)], check=True, capture_output=True)
        return path

    return make


@pytest.fixture(scope="session")
def runtime_layers(base_image):
    return layers.with_mxnet()
