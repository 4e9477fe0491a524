"""Role mxnet_runtime on a real host: MXNet from nothing, the wheel by GPU, the proof on every device."""

import hashlib
import json
import re
import tarfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import host as hosts
import pytest
from fakes.nvml import HOST_SCRIPT, K80, MISMATCH, FakeNvml
from plays import play
from runtime_host import NAMES

pytestmark = pytest.mark.boots(by=lambda layers, folder: hosts.up(layers))
H100 = K80 | {"major": 9, "minor": 0, "name": "NVIDIA H100"}
PYTHON = """#!/bin/sh
# MXNet on GPUs that hang when they talk to each other directly, whatever one asks of them
[ "$MXNET_ENABLE_GPU_P2P" = 0 ] || { trap '' TERM; while :; do sleep 1; done; }
[ "$(id -u)" != 0 ] && echo proven
"""
INSTALL = "mxnet_runtime : Install what is missing"
MAKE = "mxnet_runtime : Make the environment, unless it is whole and computes"


@pytest.fixture
def gpus(host):
    """`gpus(code, K80, K80)`: a driver's library that answers with the code and knows these GPUs."""
    nvml = FakeNvml(host.root / "usr/local/lib", host.root / HOST_SCRIPT)

    def install(code, *devices):
        nvml.init, nvml.devices = code, list(devices)
        nvml.write()
        host.run("ldconfig")

    yield install
    nvml.library.unlink()
    host.run("ldconfig")


def configure(host, *options, **settings):
    return play(host, ["mxnet_runtime"], settings, *options)


def stand_in(host, name, python):
    """An environment in /opt whose Python is that script."""
    (host.root / f"opt/{name}/bin").mkdir(parents=True)
    (host.root / f"opt/{name}/bin/python").write_text(python)
    host.run(f"chmod -R a+rx /opt/{name}")


def prove(host, **arguments):
    task = [{"name": "Prove", "mxnet_proof": arguments}]
    return play(host, ["mxnet_runtime"], {}, tasks=json.dumps(task))


def test_a_fresh_host_is_predicted_and_changed_by_nothing_but_the_real_run(fresh_host):
    looked_at = "dpkg-query -W; ls -A /opt /etc/ld.so.conf.d"
    before = fresh_host.read(looked_at)
    done = configure(fresh_host, "--check")
    assert (done.code, done.changed) == (0, [INSTALL, MAKE]), done.output
    assert fresh_host.read(looked_at) == before


def test_a_second_run_changes_nothing_before_and_after_a_reboot(host):
    for again in (configure(host), configure(host, "--check")):
        assert (again.code, again.changed) == (0, []), again.output
    host.reboot()
    for again in (configure(host), configure(host, "--check")):
        assert (again.code, again.changed) == (0, []), again.output


@pytest.mark.parametrize("devices, settings, words", [
    ([K80] * 16, {}, "Failed to find libraries in /opt/cuda-10.2: it lacks libcudart.so.10.2, libcublas.so.10"),
    ([K80] * 16, {"mxnet_runtime_cuda_102_url": "https://198.51.100.0/cuda.tar"}, "must be an absolute path below"),
    ([H100], {}, "no wheel of MXNet 1.9.1 has code for NVIDIA H100 (compute capability 9.0)"),
], ids=["K80", "no hash", "H100"])
def test_gpus_that_mxnet_cannot_use_as_it_is_are_refused_first(host, gpus, devices, settings, words):
    gpus(0, *devices)
    done = configure(host, **settings)
    assert done.code != 0
    assert words in " ".join(done.output.split())
    assert host.read("ls /opt/mxnet/.complete")


def test_a_driver_that_does_not_answer_is_not_taken_for_a_machine_without_gpus(host, gpus):
    gpus(MISMATCH, K80)
    done = configure(host)
    assert done.code != 0
    assert "Driver/library version mismatch (NVML error 18)" in done.output
    assert configure(host, mxnet_runtime_use_gpus=False).code == 0


@pytest.fixture
def archive(host, tmp_path):
    """(address, SHA-256) of an archive with files that have the names of CUDA 10.2's libraries."""
    path = tmp_path / "served/cuda.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as tar:
        for name in NAMES:
            (tmp_path / name).write_text(f"{name}\n")
            tar.add(tmp_path / name, name)
    server = ThreadingHTTPServer((host.gateway, 0), partial(SimpleHTTPRequestHandler, directory=str(path.parent)))
    Thread(target=server.serve_forever).start()
    yield f"http://{host.gateway}:{server.server_port}/cuda.tar.gz", hashlib.sha256(path.read_bytes()).hexdigest()
    server.shutdown()


def have(host, module, arguments, *options):
    """Only that module of the role."""
    task = [{"name": "Have", module: arguments}]
    role = "roles/mxnet_runtime"
    utilities = f"{role}/module_utils:roles/data_volume/module_utils"
    places = {"ANSIBLE_LIBRARY": f"{role}/library", "ANSIBLE_MODULE_UTILS": utilities}
    return play(host, [], {}, *options, tasks=json.dumps(task), **places)


def have_libraries(host, *options, **arguments):
    return have(host, "cuda_libraries", {"names": NAMES, "path": "/opt/cuda/10.2"} | arguments, *options)


def test_cuda_10_comes_from_where_the_operator_says_and_is_what_he_means(host, archive):
    url, sha256 = archive
    wrong = have_libraries(host, url=f"{url}?key=secret-key", sha256="0" * 64)
    assert wrong.code != 0
    assert f"its SHA-256 is {sha256}, not {'0' * 64}" in " ".join(wrong.output.split())
    assert "secret-key" not in wrong.output
    assert host.read("ls -A /opt/cuda") == ""
    assert "Have" in have_libraries(host, "--check", url=url, sha256=sha256).changed
    done = have_libraries(host, url=url, sha256=sha256)
    assert "Have" in done.changed, done.output
    assert host.read("cat /opt/cuda/10.2/libnccl.so.2") == "libnccl.so.2"
    for settings in ({"url": url, "sha256": sha256}, {}):
        again = have_libraries(host, **settings)
        assert (again.code, again.changed) == (0, []), again.output
    assert host.read("ls -A /opt/cuda") == "10.2"


@pytest.mark.parametrize("module, size, what", [
    ("cuda_libraries", "40k", "fill /small/cuda"),
    ("mxnet_venv", "44m", "install MXNet in /small/venv"),
])
def test_a_full_disk_is_told(host, archive, module, size, what):
    """The disk is a small one of its own; an environment without packages fits into 30 MB."""
    url, sha256 = archive
    host.run(f"umount -q /small; mkdir -p /small && mount -t tmpfs -o size={size} none /small")
    arguments = {
        "cuda_libraries": {"path": "/small/cuda", "names": NAMES, "url": url, "sha256": sha256},
        "mxnet_venv": {
            "path": "/small/venv", "python": "/usr/bin/python3", "packages": ["numpy==1.26.4"], "constraints": "",
        },
    }[module]
    full = have(host, module, arguments)
    said = " ".join(full.output.split())
    assert full.code != 0
    assert re.search(rf"Failed to {what} \((exit code \d+, )?\d+ MB free there\)", said), said
    assert "No space left on device" in said


def test_an_ordinary_user_computes_on_every_device_and_adds_up_over_all(host):
    devices = ["cpu(0)", "cpu(1)", "cpu(2)"]
    proven = {"path": "/opt/mxnet", "devices": devices, "identity": ["one"]}
    assert "Prove" in prove(host, **proven).changed
    assert prove(host, **proven).changed == []
    assert host.read("cat /opt/mxnet/environment") == ""
    wrong = prove(host, path="/opt/mxnet", devices=["gpu(0)"], identity=["two"])
    assert wrong.code != 0
    assert "Failed to compute with MXNet on gpu(0)" in wrong.output


def test_a_device_that_a_service_is_kept_from_is_kept_from_the_proof(host):
    """The disk stands for a GPU: all that is asked of it is to be opened."""
    disk = host.loop(0)
    stand_in(host, "seeing", f"#!/bin/sh\n: <{disk} && echo proven\n")
    host.run(f"chmod a+r {disk}")
    seen = {"path": "/opt/seeing", "devices": ["gpu(0)"], "identity": ["a"]}
    assert "Prove" in prove(host, **seen).changed
    # In a container DevicePolicy=closed keeps nothing away.
    hidden = prove(host, **seen, sandbox="# of a unit\nPrivateDevices=true\nDeviceAllow=char-nvidia rw\n")
    assert hidden.code != 0
    said = " ".join(hidden.output.split())
    assert "Failed to compute with MXNet on gpu(0)" in said and f"cannot open {disk}: No such file" in said, said


def test_gpus_that_hang_when_they_talk_directly_go_through_memory(host):
    stand_in(host, "hanging", PYTHON)
    done = prove(host, path="/opt/hanging", devices=["gpu(0)", "gpu(1)"], identity=["a", "b"], limit_seconds=2)
    assert done.code == 0, done.output
    assert "go through the host's memory now" in done.output
    assert host.read("cat /opt/hanging/environment") == "MXNET_ENABLE_GPU_P2P=0"
