"""Role mxnet_runtime with the real wheels for GPUs, on a host that has none: as far as it goes without a driver."""

import subprocess
from pathlib import Path

import pytest
from fakes.nvml import HOST_SCRIPT, K80, FakeNvml
from plays import Played, start

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parent / "gpus" / "cuda.c"
A10G = K80 | {"major": 8, "minor": 6, "name": "NVIDIA A10G"}
LIMIT_SECONDS = 3600  # 3 GB are fetched
FEATURES = "import numpy; numpy.bool = bool; import mxnet; print(mxnet.runtime.Features().is_enabled('CUDA'))"


@pytest.fixture
def host(fresh_host):
    """A driver that NVML and CUDA answer for, the latter that there is no GPU."""
    nvml = FakeNvml(fresh_host.root / "usr/local/lib", fresh_host.root / HOST_SCRIPT, gpus=1)
    nvml.devices = [A10G]
    nvml.write()
    library = fresh_host.root / "usr/local/lib/libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(SOURCE)], check=True)
    fresh_host.run("ldconfig")
    return fresh_host


def configure(host, **settings) -> Played:
    started = start(host, ["mxnet_runtime"], settings)
    try:
        output, _ = started.communicate(timeout=LIMIT_SECONDS)
    finally:
        started.kill()
    return Played(started.returncode, output)


def test_the_wheel_for_cuda_11_is_what_was_pinned_and_a_service_finds_its_libraries(host):
    done = configure(host)
    assert "mxnet_runtime : Make the environment, unless it is whole and computes" in done.changed, done.output
    # A service's user, with a service's environment.
    asked = f"/opt/mxnet/bin/python -I -c \"{FEATURES}\""
    assert host.read(f"systemd-run --quiet --pipe --wait -p DynamicUser=yes {asked}") == "True"
    # What is left is the GPU.
    assert done.code != 0
    assert "Failed to compute with MXNet on gpu(0) (exit code 1)" in done.output
    assert "no CUDA-capable device" in done.output
