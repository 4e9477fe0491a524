"""The roles' own modules, each called as Ansible calls it."""

import hashlib
import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playing import call, program


@pytest.fixture
def fake_apt(tmp_path):
    """PATH with an apt-get that knows no package."""
    program(tmp_path / "bin/apt-get", 'echo "E: Unable to locate package" >&2\nexit 100')
    return {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}


def data_set(tmp_path):
    return {"package": "dataset-none", "folder": "usr/share/datasets/none", "directory": str(tmp_path / "debian")}


def test_a_system_that_lacks_the_package_is_told_the_other_ways(fake_apt, tmp_path):
    result = call("debian_dataset", "trainer", data_set(tmp_path), **fake_apt)
    for part in ("dataset-none", "Unable to locate", "-e trainer_dataset=", "-e trainer_data_train="):
        assert part in result["msg"]


def test_a_system_without_apt_is_told_the_other_ways(tmp_path):
    result = call("debian_dataset", "trainer", data_set(tmp_path), PATH=str(tmp_path))
    for part in ("apt-get", "-e trainer_dataset=", "-e trainer_data_train="):
        assert part in result["msg"]


def test_check_mode_asks_no_apt(fake_apt, tmp_path):
    result = call("debian_dataset", "trainer", data_set(tmp_path), check=True, **fake_apt)
    assert result["changed"]
    assert not (tmp_path / "debian").exists()


def test_a_data_set_that_is_there_needs_no_apt(fake_apt, tmp_path):
    unpacked = tmp_path / "debian/usr/share/datasets/none"
    unpacked.mkdir(parents=True)
    result = call("debian_dataset", "trainer", data_set(tmp_path), **fake_apt)
    assert (result["changed"], result["path"]) == (False, str(unpacked))


@pytest.fixture
def ordinary_user(tmp_path):
    """An environment in which nobody is root, apt-get downloads to where it is called and dpkg-deb unpacks."""
    program(tmp_path / "bin/apt-get", f"""
        echo "$*" >>{tmp_path}/apt-get.log
        case $* in *download*) touch dataset.deb ;; *) exit 100 ;; esac""")
    program(tmp_path / "bin/dpkg-deb", 'mkdir -p "$3/usr/share/datasets/none" && cp "$2" "$3/usr/share/datasets/none"')
    (tmp_path / "python").mkdir()
    (tmp_path / "python/sitecustomize.py").write_text("import os\nos.geteuid = lambda: 1000\n")
    return {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": f"{tmp_path}/python"}


def test_an_ordinary_user_gets_the_package_unpacked_below_the_directory(ordinary_user, tmp_path):
    result = call("debian_dataset", "trainer", data_set(tmp_path), **ordinary_user)
    assert (result["changed"], result["installed"]) == (True, False)
    assert result["path"] == f"{tmp_path}/debian/usr/share/datasets/none"
    assert os.listdir(result["path"]) == ["dataset.deb"]
    assert os.listdir(tmp_path / "debian") == ["usr"]


def test_apt_waits_for_locks_and_an_ordinary_user_s_touches_no_directory_of_the_system(ordinary_user, tmp_path):
    call("debian_dataset", "trainer", data_set(tmp_path), **ordinary_user)
    for line in (tmp_path / "apt-get.log").read_text().splitlines():
        assert "DPkg::Lock::Timeout=300" in line
        assert f"Dir::State::Lists={tmp_path}/debian/" in line
        assert f"Dir::Cache={tmp_path}/debian/" in line


def test_the_host_survey_finds_a_python():
    result = call("mxnet_host", "mxnet_runtime")
    assert subprocess.run([result["python"], "-c", "import venv, ensurepip"], check=False).returncode == 0


def environment_arguments(path):
    return {"path": str(path), "python": sys.executable, "packages": ["pip"], "constraints": ""}


def test_an_environment_whose_mxnet_does_not_compute_is_a_failure_and_gets_no_stamp(tmp_path):
    result = call("mxnet_venv", "mxnet_runtime", environment_arguments(tmp_path / "mxnet"))
    assert "Failed to compute a product with MXNet" in result["msg"]
    assert not (tmp_path / "mxnet/.complete").exists()


def test_what_cannot_be_installed_is_named(tmp_path):
    arguments = environment_arguments(tmp_path / "mxnet") | {"packages": ["./no-such-package"]}
    result = call("mxnet_venv", "mxnet_runtime", arguments)
    assert "Failed to install MXNet" in result["msg"]
    assert "no-such-package" in result["msg"]


@pytest.mark.parametrize("python", [None, "exit 0", "exit 1"])
def test_a_half_made_or_broken_environment_is_noticed(tmp_path, python):
    (tmp_path / "mxnet").mkdir()
    (tmp_path / "mxnet/pyvenv.cfg").touch()
    (tmp_path / "mxnet/.complete").write_text("made from something else")
    if python:
        program(tmp_path / "mxnet/bin/python", python)
    assert call("mxnet_venv", "mxnet_runtime", environment_arguments(tmp_path / "mxnet"), check=True)["changed"]


@pytest.mark.parametrize("state, job, refused", [
    ("active", 0, True), ("activating", 0, True), ("inactive", 0, False), ("inactive", 42, True)])
def test_an_environment_is_not_made_anew_under_a_training(tmp_path, fake_python, state, job, refused):
    """Nor under one that waits for another unit at a boot."""
    program(tmp_path / "bin/systemctl", f"[ $1 = show ] && echo {job} || {{ echo {state}; exit 3; }}")
    arguments = venv_arguments(tmp_path, fake_python("python"))
    result = call("mxnet_venv", "mxnet_runtime", arguments, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert ("trainer.service is training; stop it first" in result.get("msg", "")) == refused
    assert (tmp_path / "mxnet").exists() != refused


def archive_of(tmp_path, *names):
    with tarfile.open(tmp_path / "cuda.tar", "w") as tar:
        for name in names:
            (tmp_path / name).touch()
            tar.add(tmp_path / name, name)
    sha256 = hashlib.sha256((tmp_path / "cuda.tar").read_bytes()).hexdigest()
    return {"url": f"file://{tmp_path}/cuda.tar", "sha256": sha256, "path": f"{tmp_path}/opt/cuda", "names": ["one.so"]}


def test_an_archive_replaces_nothing_but_an_earlier_archive(tmp_path):
    photo = tmp_path / "opt/cuda/photo.jpg"
    photo.parent.mkdir(parents=True)
    photo.touch()
    result = call("cuda_libraries", "mxnet_runtime", archive_of(tmp_path, "one.so"))
    assert "must be empty or of an earlier archive" in result["msg"]
    photo.unlink()
    assert call("cuda_libraries", "mxnet_runtime", archive_of(tmp_path, "one.so"))["changed"]
    result = call("cuda_libraries", "mxnet_runtime", archive_of(tmp_path, "two.so"))
    assert "the archive lacks one.so at its top" in result["msg"]
    assert sorted(os.listdir(tmp_path / "opt/cuda")) == [".sha256", "one.so"]
    assert call("cuda_libraries", "mxnet_runtime", archive_of(tmp_path, "one.so", "two.so"))["changed"]
    assert sorted(os.listdir(tmp_path / "opt/cuda")) == [".sha256", "one.so", "two.so"]


class BreakingOff(SimpleHTTPRequestHandler):
    """Serves half of a file at the first request."""

    asked = 0

    def copyfile(self, source, outputfile):
        type(self).asked += 1
        data = source.read()
        outputfile.write(data[:len(data) // 2] if self.asked == 1 else data)


def test_a_download_that_breaks_off_is_tried_again(tmp_path):
    arguments = archive_of(tmp_path, "one.so")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(BreakingOff, directory=str(tmp_path)))
    Thread(target=server.serve_forever).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/cuda.tar"
        result = call("cuda_libraries", "mxnet_runtime", arguments | {"url": url}, no_proxy="*")
    finally:
        server.shutdown()
        server.server_close()
    assert (result["changed"], BreakingOff.asked) == (True, 2)


@pytest.fixture
def fake_python(tmp_path):
    """`fake_python(name)`: a Python whose environments take a second to make and compute whatever they are asked."""
    script = f'echo "$0" >>{tmp_path}/made; sleep 1; mkdir -p "$3/bin"; cp /bin/true "$3/bin/python"'
    return lambda name: str(program(tmp_path / name, script))


def venv_arguments(tmp_path, python):
    return environment_arguments(tmp_path / "mxnet") | {"python": python}


@pytest.mark.parametrize("check", [False, True])
def test_a_directory_that_holds_something_else_is_left_alone(tmp_path, fake_python, check):
    photos = tmp_path / "mxnet/photos/one.jpg"
    photos.parent.mkdir(parents=True)
    photos.touch()
    result = call("mxnet_venv", "mxnet_runtime", venv_arguments(tmp_path, fake_python("python")), check=check)
    assert f"Failed to make an environment in {tmp_path}/mxnet: all that is in it is removed" in result["msg"]
    assert photos.exists()


@pytest.mark.parametrize("left", [[], ["pyvenv.cfg", "lib/python3.11/old.py"]])
def test_an_empty_directory_and_an_older_environment_become_one(tmp_path, fake_python, left):
    (tmp_path / "mxnet").mkdir()
    for name in left:
        (tmp_path / "mxnet" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mxnet" / name).touch()
    assert call("mxnet_venv", "mxnet_runtime", venv_arguments(tmp_path, fake_python("python")))["changed"]
    assert (tmp_path / "mxnet/.complete").exists()
    assert not (tmp_path / "mxnet/lib").exists()


def test_another_python_that_comes_first_in_path_is_no_reason_to_make_it_anew(tmp_path, fake_python):
    assert call("mxnet_venv", "mxnet_runtime", venv_arguments(tmp_path, fake_python("one/python3")))["changed"]
    assert not call("mxnet_venv", "mxnet_runtime", venv_arguments(tmp_path, fake_python("two/python3")))["changed"]


def test_two_at_once_make_one_environment(tmp_path, fake_python):
    arguments = venv_arguments(tmp_path, fake_python("python"))
    with ThreadPoolExecutor() as threads:
        both = [threads.submit(call, "mxnet_venv", "mxnet_runtime", arguments) for _ in range(2)]
    assert sorted(one.result()["changed"] for one in both) == [False, True]
    assert len((tmp_path / "made").read_text().splitlines()) == 1
