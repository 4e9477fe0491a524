"""A controller that is killed after any task of mxnet_runtime that changes something, on a host with GPUs.

The tests follow one host through its life, in this order.
"""

import pytest
from plays import killed_until_done, play
from runtime_host import give_gpus, settings

LIBRARIES = "Have CUDA 10.2's libraries, for GPUs that need them"
MAKE = "Make the environment, unless it is whole and computes"
PROVE = "Prove it on every GPU"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nvml(host):
    return give_gpus(host, 16)


def configure(host, *options, version=1, environment=None, **more):
    return play(host, ["mxnet_runtime"], settings(host, version) | more, *options, **(environment or {}))


def killed(host, version):
    changed = killed_until_done(lambda environment: configure(host, version=version, environment=environment))
    return names(changed)


def names(tasks):
    return [name.removeprefix("mxnet_runtime : ") for name in tasks]


def changes_nothing(host, version):
    for options in ([], ["--check"]):
        again = configure(host, *options, version=version)
        assert (again.code, again.changed) == (0, []), again.output


def test_a_fresh_host(host, nvml):
    assert names(configure(host, "--check").changed) == ["Install what is missing", LIBRARIES, MAKE, PROVE]
    assert host.run("ls -A /opt/mxnet /opt/cuda-10.2", check=False).stdout == ""
    assert killed(host, version=1) == ["Install what is missing", LIBRARIES, MAKE, PROVE]
    assert host.read("cat /opt/cuda-10.2/libnccl.so.2") == "libnccl.so.2 1"
    assert host.read("cat /etc/ld.so.conf.d/mxnet.conf") == "/opt/cuda-10.2"
    changes_nothing(host, version=1)
    host.reboot()
    changes_nothing(host, version=1)


def test_other_libraries_are_linked_and_proven_and_not_brought_under_a_training(host, nvml):
    host.run("systemd-run --quiet --unit=trainer sleep infinity")
    done = configure(host, version=2)
    host.run("systemctl stop trainer")
    assert "Failed to replace the libraries in /opt/cuda-10.2: trainer.service is training" in \
        " ".join(done.output.split())
    assert host.read("cat /opt/cuda-10.2/libnccl.so.2") == "libnccl.so.2 1"
    assert names(configure(host, "--check", version=2).changed) == [LIBRARIES, MAKE, PROVE]
    assert killed(host, version=2) == [LIBRARIES, MAKE, PROVE]
    assert host.read("cat /opt/cuda-10.2/libnccl.so.2") == "libnccl.so.2 2"
    changes_nothing(host, version=2)


def test_an_environment_that_the_trainers_service_would_not_see_is_told(host, nvml):
    done = configure(host, version=2, mxnet_runtime_venv="/home/trainer/mxnet")
    assert done.code != 0
    said = " ".join(done.output.split())
    assert "Failed to compute with MXNet on gpu(0)" in said and "mxnet/bin/python’: Permission denied" in said, said
