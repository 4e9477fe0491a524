"""./kit: what needs no environment to be made."""

import shutil
import subprocess

import pytest
from playing import PROJECT

from trainer import __version__


def kit(*arguments, root=PROJECT, cwd="/"):
    return subprocess.run([root / "kit", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments):
    done = kit(*arguments)
    assert done.returncode == 0
    for command in ("train", "trainer", "bench", "test", "test-slow", "clean"):
        assert f"\n  {command} " in done.stdout


def test_version_is_the_package_s():
    assert kit("--version").stdout == f"{__version__}\n"


def test_an_unknown_command_is_an_error_with_the_usage():
    done = kit("trian")
    assert done.returncode == 1
    assert "unknown command: trian" in done.stderr
    assert "usage:" in done.stderr


@pytest.fixture
def checkout(tmp_path):
    """A checkout, with a space in its path, in which the other commands have left something."""
    root = tmp_path / "a checkout"
    for folder in (".kit/mxnet", "run/mine", "trainer/__pycache__", "docs"):
        (root / folder).mkdir(parents=True)
    shutil.copy(PROJECT / "kit", root)
    (root / "run/mine/lease.json").write_text("{}")
    (root / ".kit/system-packages").write_text("libgomp1\nlibquadmath0\nlibgomp1\n")
    return root


def test_clean_removes_all_that_was_made_and_says_so(checkout):
    done = kit("clean", root=checkout)
    assert done.returncode == 0
    assert sorted(path.name for path in checkout.iterdir()) == ["docs", "kit", "trainer"]
    assert list((checkout / "trainer").iterdir()) == []
    for text in (f"{checkout}/.kit", f"{checkout}/run", "apt-get remove libgomp1 libquadmath0"):
        assert text in done.stderr


def test_clean_refuses_while_a_run_is_trained(checkout):
    lock = subprocess.Popen(
        ["flock", checkout / "run/mine/lease.json", "sh", "-c", "echo held; exec sleep 60"],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )
    try:
        assert lock.stdout.readline() == "held\n"
        done = kit("clean", root=checkout)
    finally:
        subprocess.run(["kill", "--", f"-{lock.pid}"], check=True)
        lock.wait()
    assert done.returncode == 1
    assert "mine is being trained" in done.stderr
    assert (checkout / ".kit/mxnet").exists()
