"""Test hosts and disks for the tests of the roles; skipped, with the reason, where none can run."""

import hashlib
import shutil
import subprocess

import host as hosts
import image
import pytest
from plays import PROJECT, play


@pytest.fixture(scope="session")
def base_image():
    reason = image.why_not()
    if reason:
        pytest.skip(reason)
    base = image.base()
    with image.locked("sweep"):
        hosts.sweep()
    return base


@pytest.fixture(scope="module")
def host(base_image):
    """One fresh host for the tests of a file."""
    booted = hosts.up([base_image])
    yield booted
    hosts.down(booted)


@pytest.fixture
def fresh_host(base_image):
    booted = hosts.up([base_image])
    yield booted
    hosts.down(booted)


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
    """The image with MXNet on it, made by the role mxnet_runtime (minutes, once; kept in .kit/hosts/)."""
    sources = [PROJECT / "requirements.txt", *sorted((PROJECT / "roles/mxnet_runtime").rglob("*.[py]*"))]
    made_from = base_image.name.encode() + b"".join(path.read_bytes() for path in sources if path.suffix != ".pyc")
    layer = image.HOSTS / f"runtime-{hashlib.sha256(made_from).hexdigest()[:12]}"
    with image.locked("runtime"):
        if not layer.exists():
            make_runtime(layer, base_image)
    return [layer, base_image]


def make_runtime(layer, base_image):
    for old in image.HOSTS.glob("runtime-*"):
        shutil.rmtree(old)
    booted = hosts.up([base_image])
    done = play(booted, ["mxnet_runtime"], {})
    hosts.down(booted, keep_upper=layer if done.code == 0 else None)
    assert done.code == 0, done.output
