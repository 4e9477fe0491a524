"""Role mxnet_runtime on a real host: MXNet from nothing, the wheel by GPU, the proof on every device."""

import json
import subprocess
from pathlib import Path

import host as hosts
import pytest
from plays import play

GPUS = {"K80": "3 7 Tesla K80", "H100": "9 0 NVIDIA H100"}
PYTHON = """#!/bin/sh
# MXNet on GPUs that hang when they talk to each other directly
[ "$MXNET_ENABLE_GPU_P2P" = 0 ] || exec sleep 60
[ "$(id -un)" = nobody ]
"""


@pytest.fixture(scope="module")
def host(runtime_layers):
    booted = hosts.up(runtime_layers)
    yield booted
    hosts.down(booted)


@pytest.fixture
def gpus(host, tmp_path):
    """`gpus(code, "K80", "K80")`: a driver's library that answers with the code and knows these GPUs."""
    library = tmp_path / "libnvidia-ml.so.1"
    source = Path(__file__).parent / "gpus" / "nvml.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)

    def install(code, *names):
        (host.root / "usr/local/lib/libnvidia-ml.so.1").write_bytes(library.read_bytes())
        lines = [str(code), *(GPUS[name] for name in names)]
        (host.root / "etc/fake-gpus").write_text("\n".join(lines) + "\n")
        host.run("ldconfig")

    yield install
    host.run("rm /usr/local/lib/libnvidia-ml.so.1 /etc/fake-gpus; ldconfig")


def configure(host, *options, **settings):
    return play(host, ["mxnet_runtime"], settings, *options)


def prove(host, **arguments):
    task = [{"name": "Prove", "mxnet_proof": arguments}]
    return play(host, ["mxnet_runtime"], {}, tasks=json.dumps(task))


def test_a_second_run_changes_nothing(host):
    again = configure(host)
    assert (again.code, again.changed) == (0, []), again.output


@pytest.mark.parametrize("names, settings, words", [
    (["K80"] * 16, {}, "mxnet_runtime_cuda_102_directory must be the directory"),
    (["H100"], {}, "no wheel of MXNet 1.9.1 has code for NVIDIA H100 (compute capability 9.0)"),
], ids=["K80", "H100"])
def test_gpus_that_mxnet_cannot_use_as_it_is_are_refused_first(host, gpus, names, settings, words):
    gpus(0, *names)
    done = configure(host, **settings)
    assert done.code != 0
    assert words in " ".join(done.output.split())
    assert host.read("ls /opt/mxnet/.complete")


def test_a_driver_that_does_not_answer_is_not_taken_for_a_machine_without_gpus(host, gpus):
    gpus(18, "K80")
    done = configure(host)
    assert done.code != 0
    assert "Driver/library version mismatch (NVML error 18)" in done.output
    assert configure(host, mxnet_runtime_use_gpus=False).code == 0


def test_an_ordinary_user_computes_on_every_device_and_adds_up_over_all(host):
    devices = ["cpu(0)", "cpu(1)", "cpu(2)"]
    proven = {"path": "/opt/mxnet", "devices": devices, "identity": ["one"]}
    assert "Prove" in prove(host, **proven).changed
    assert prove(host, **proven).changed == []
    assert host.read("cat /opt/mxnet/environment") == ""
    wrong = prove(host, path="/opt/mxnet", devices=["gpu(0)"], identity=["two"])
    assert wrong.code != 0
    assert "Failed to compute with MXNet on gpu(0)" in wrong.output


def test_gpus_that_hang_when_they_talk_directly_go_through_memory(host):
    (host.root / "opt/hanging/bin").mkdir(parents=True)
    (host.root / "opt/hanging/bin/python").write_text(PYTHON)
    host.run("chmod -R a+rx /opt/hanging")
    done = prove(host, path="/opt/hanging", devices=["gpu(0)", "gpu(1)"], identity=["a", "b"], limit_seconds=2)
    assert done.code == 0, done.output
    assert "go through the host's memory now" in done.output
    assert host.read("cat /opt/hanging/environment") == "MXNET_ENABLE_GPU_P2P=0"
