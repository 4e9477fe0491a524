"""Role mxnet_runtime with the real wheels for GPUs, on a host that has none: as far as it goes without a driver."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import cuda_stubs
import pytest
from fakes.nvml import HOST_SCRIPT, K80, FakeNvml
from network import call
from plays import PROJECT, Played, play
from runtime_host import NAMES

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parent / "gpus" / "cuda.c"
A10G = K80 | {"major": 8, "minor": 6, "name": "NVIDIA A10G"}
LIMIT_SECONDS = 3600  # 3 GB are fetched
FEATURES = "import numpy; numpy.bool = bool; import mxnet; print(mxnet.runtime.Features().is_enabled('CUDA'))"


def give_driver(host, gpu):
    """One that NVML and CUDA answer for, the latter that there is no GPU."""
    nvml = FakeNvml(host.root / "usr/local/lib", host.root / HOST_SCRIPT, gpus=1)
    nvml.change(0, **gpu)
    library = host.root / "usr/local/lib/libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(SOURCE)], check=True)
    host.run("ldconfig")


def configure(host) -> Played:
    return play(host, ["mxnet_runtime"], {}, limit_seconds=LIMIT_SECONDS)


def check(host, done, words):
    """All but the GPU is there, which the wheel tells with these words."""
    assert "mxnet_runtime : Make the environment, unless it is whole and computes" in done.changed, done.output
    # A service's user, with a service's environment.
    asked = f"/opt/mxnet/bin/python -I -c \"{FEATURES}\""
    assert host.read(f"systemd-run --quiet --pipe --wait -p DynamicUser=yes {asked}") == "True"
    assert done.code != 0
    assert "Failed to compute with MXNet on gpu(0) (exit code 1)" in done.output
    assert words in done.output, done.output


def test_the_wheel_for_cuda_11_is_what_was_pinned_and_a_service_finds_its_libraries(fresh_host):
    give_driver(fresh_host, A10G)
    check(fresh_host, configure(fresh_host), "no CUDA-capable device")


@pytest.fixture
def k80s_library(fresh_host):
    """Of the pinned wheel for K80s, which waits on the host for pip: it need not be fetched twice."""
    wheels = fresh_host.root / "opt/wheels"
    pinned = PROJECT / "roles/mxnet_runtime/files/mxnet-cu102.txt"
    call(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "-r", str(pinned),
         "-d", str(wheels))  # fmt: skip
    with open(fresh_host.root / "etc/pip.conf", "a") as file:
        file.write("find-links = /opt/wheels\n")
    [wheel] = wheels.iterdir()
    return Path(ZipFile(wheel).extract("mxnet/libmxnet.so", fresh_host.directory))


def test_the_wheel_for_k80s_is_what_was_pinned_and_a_service_finds_the_operators_libraries(fresh_host, k80s_library):
    give_driver(fresh_host, K80)
    libraries = fresh_host.root / "opt/cuda-10.2"
    cuda_stubs.build(libraries, k80s_library, NAMES)
    (libraries / "libcurand.so.10").rename(libraries / "aside")
    lacking = configure(fresh_host)
    assert lacking.code != 0
    said = " ".join(lacking.output.split())
    assert "Failed to find libraries in /opt/cuda-10.2: it lacks libcurand.so.10" in said, said
    assert not (fresh_host.root / "opt/mxnet").exists()
    (libraries / "aside").rename(libraries / "libcurand.so.10")
    check(fresh_host, configure(fresh_host), "cudaDriverGetVersion(&cuda_driver_version) == cudaSuccess (100 vs. 0)")
