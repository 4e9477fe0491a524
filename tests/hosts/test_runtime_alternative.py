"""Role mxnet_runtime from nothing, with its other options: another place, fewer packages, no look at the GPUs.

The tests follow one host through its life, in this order.
"""

from plays import KILLED, killed_after, play

SETTINGS = {
    "mxnet_runtime_venv": "/srv/python/mxnet", "mxnet_runtime_packages": ["mxnet", "numpy"],
    "mxnet_runtime_use_gpus": False,
}
INSTALL = "mxnet_runtime : Install what is missing"
MAKE = "mxnet_runtime : Make the environment, unless it is whole and computes"
PRODUCT = "import numpy; numpy.bool = bool; from mxnet import nd; print(nd.ones((2, 3)).sum().asscalar())"


def configure(host, *options, **environment):
    return play(host, ["mxnet_runtime"], SETTINGS, *options, **environment)


def test_a_fresh_host_is_predicted(host):
    """One whose root shares nothing by itself."""
    (host.root / "root/.bashrc").write_text("umask 077\n")
    done = configure(host, "--check")
    assert done.code == 0, done.output
    assert done.changed == [INSTALL, MAKE]
    assert host.run("ls -d /srv/python /usr/lib/python3*/ensurepip", check=False).stdout == ""


def test_a_user_computes_though_the_controller_died_half_way(host):
    died = configure(host, **killed_after(1))
    assert (died.code, died.changed) == (KILLED, [INSTALL]), died.output
    done = configure(host)
    assert done.code == 0, done.output
    assert done.changed == [MAKE]
    computed = host.read(f"runuser -u nobody -- /srv/python/mxnet/bin/python -W ignore -c '{PRODUCT}'")
    assert computed == "6.0"


def test_it_stays_so_after_a_reboot_and_a_second_run_changes_nothing(host):
    host.reboot()
    for options in ([], ["--check"]):
        again = configure(host, *options)
        assert (again.code, again.changed) == (0, []), again.output
