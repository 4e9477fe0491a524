"""./kit: what needs no environment to be made."""

import re
import shutil
import subprocess
import sys

import pytest
from playing import PROJECT, ROLES, program

from trainer import __version__

sys.path.insert(0, str(ROLES / "mxnet_runtime" / "module_utils"))
from python_choice import CANDIDATES, VERSIONS  # noqa: E402

TOOLS_OF_KIT = ("basename", "cat", "dirname", "find", "flock", "grep", "mkdir", "rm", "sed", "sh", "sort", "tr", "true")


def kit(*arguments, root=PROJECT, cwd="/", path=None):
    environment = {"PATH": path} if path else None
    return subprocess.run(
        [root / "kit", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_help_lists_the_commands(arguments):
    done = kit(*arguments)
    assert done.returncode == 0
    for command in ("train", "plan", "trainer", "bench", "rehearsal", "test", "test-slow", "clean"):
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
    for text in (f"{checkout}/.kit", f"{checkout}/run", "stay; as root: apt-get remove libgomp1 libquadmath0"):
        assert text in done.stderr


@pytest.fixture
def system(checkout, tmp_path):
    """`system(user, apt_get, pythons...)`: PATH of a machine that has only these; its apt-get writes down its calls."""
    kit_text = (checkout / "kit").read_text()
    (checkout / "kit").write_text(kit_text.replace("/usr/bin/", f"{tmp_path}/usr/bin/"))
    for name in TOOLS_OF_KIT:
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))

    def make(user=1000, apt_get="", **pythons):
        program(tmp_path / "bin/id", f"echo {user}")
        program(tmp_path / "bin/apt-get", f'echo "$*" >>{tmp_path}/apt-get.log; {apt_get}')
        for name, script in pythons.items():
            program(tmp_path / "bin" / name.replace("_", "."), script)
        return str(tmp_path / "bin")

    return make


def calls(tmp_path):
    log = tmp_path / "apt-get.log"
    return log.read_text().splitlines() if log.exists() else []


def python(version, ensurepip=True, libraries=()):
    """Answers what kit asks a Python."""
    return f"""case $* in
        *system_libraries.py) for library in {' '.join(libraries)}; do echo $library; done ;;
        *ensurepip*) exit {0 if ensurepip else 1} ;;
        *version_info*) echo {version} ;;
        *) exit 9 ;; esac"""


def test_clean_removes_the_system_packages_only_when_it_is_told(checkout, system, tmp_path):
    assert kit("clean", root=checkout, path=system(user=0)).returncode == 0
    assert calls(tmp_path) == []


def test_clean_with_system_packages_removes_exactly_those_noted(checkout, system, tmp_path):
    path = system(user=0, apt_get="echo 'Remv libgomp1 [1]'; echo 'Remv libquadmath0 [1]'")
    done = kit("clean", "--system-packages", root=checkout, path=path)
    assert done.returncode == 0, done.stderr
    assert calls(tmp_path)[-1] == "-q -o DPkg::Lock::Timeout=300 remove -y libgomp1 libquadmath0"
    assert not (checkout / ".kit").exists()


@pytest.mark.parametrize(
    ("user", "arguments", "said"),
    [
        (0, ["--system-packages"], "these need them: gcc"),
        (1000, ["--system-packages"], "only root can remove the system packages libgomp1 libquadmath0"),
        (0, ["--all"], "no argument but --system-packages, got --all"),
    ],
)
def test_clean_that_cannot_do_all_does_nothing(checkout, system, tmp_path, user, arguments, said):
    path = system(user=user, apt_get="echo 'Remv libgomp1 [1]'; echo 'Remv gcc [12]'")
    done = kit("clean", *arguments, root=checkout, path=path)
    assert done.returncode == 1
    assert said in done.stderr
    assert (checkout / ".kit/system-packages").exists()
    assert not any("-y" in call for call in calls(tmp_path))


@pytest.mark.parametrize(
    ("pythons", "said"),
    [
        ({}, "needs Python 3.11 or 3.12; looked for python3.11, python3.12 and python3"),
        ({"python3": python("3.13")}, "needs Python 3.11 or 3.12"),
        ({"python3_11": python("3.11", libraries=["libgomp1", "libstdc++6"])}, "lacks libgomp1 libstdc++6; as root"),
        ({"python3_11": python("3.11", ensurepip=False)}, "lacks python3.11-venv; as root"),
        ({"python3": python("3.12", ensurepip=False)}, "lacks python3.12-venv; as root"),
        ({"python3_11": python("3.11", ensurepip=False), "python3": python("3.12", libraries=["libgomp1"])},
         "lacks libgomp1; as root: apt-get update && apt-get install libgomp1"),
    ],
)
def test_an_ordinary_user_is_told_what_the_system_lacks(checkout, system, tmp_path, pythons, said):
    done = kit("train", root=checkout, path=system(**pythons))
    assert done.returncode == 1
    assert said in done.stderr
    assert calls(tmp_path) == []


def test_root_gets_what_the_system_lacks_and_waits_for_apt_s_locks(checkout, system, tmp_path):
    kit("train", root=checkout, path=system(user=0, python3_11=python("3.11", libraries=["libstdc++6"])))
    update, install = calls(tmp_path)
    assert update.endswith("update")
    assert install == "-q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends libstdc++6"
    assert "libstdc++6" in (checkout / ".kit/system-packages").read_text().splitlines()


def test_kit_and_the_role_look_for_the_same_pythons():
    text = (PROJECT / "kit").read_text()
    assert tuple(re.search("for name in (python.*); do", text).group(1).split()) == CANDIDATES
    assert tuple(re.search(r"case \$version in (.*)\) ;;", text).group(1).split(" | ")) == VERSIONS


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


def test_a_rehearsal_without_root_says_why_and_makes_nothing(checkout, system):
    done = kit("rehearsal", root=checkout, path=system(user=1000))
    assert done.returncode == 1
    assert "the rehearsal needs root" in done.stderr
    assert not (checkout / ".kit/tests").exists()
