"""Where uv gets packages from: what pip is told on that machine; and when pip does without it."""

import base64
import os
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from zipfile import ZipFile

import pytest
from playing import PROJECT, ROLES, call

sys.path.insert(0, str(ROLES / "mxnet_runtime" / "module_utils"))
from uv_settings import uv_settings  # noqa: E402

MIRROR = "https://me:pass@mirror.example/simple"


@pytest.mark.parametrize(("listed", "environment"), [
    ("", {}),
    (f"global.index-url='{MIRROR}'", {"UV_DEFAULT_INDEX": MIRROR}),
    ("install.index-url='https://m.example/?a=b.c'", {"UV_DEFAULT_INDEX": "https://m.example/?a=b.c"}),
    (":env:.extra-index-url='https://a.example/simple\\nfile:///srv/simple'",
     {"UV_INDEX": "https://a.example/simple file:///srv/simple"}),
    ("global.trusted-host='a.example\\nb.example:8080'", {"UV_INSECURE_HOST": "a.example b.example:8080"}),
    ("global.proxy='http://p.example:3128'",
     {"HTTP_PROXY": "http://p.example:3128", "HTTPS_PROXY": "http://p.example:3128"}),
    (f"global.cert='{__file__}'\nglobal.timeout='60.5'\n:env:.quiet='0'", {"SSL_CERT_FILE": __file__}),
    (f"For variant 'global', will try loading '/pip.conf'\nglobal.index-url='{MIRROR}'", {"UV_DEFAULT_INDEX": MIRROR}),
    # pip does not count what is empty, nor another command's settings.
    (f"global.index-url='{MIRROR}'\n:env:.index-url=''\nwheel.find-links='/srv'", {"UV_DEFAULT_INDEX": MIRROR}),
])  # fmt: skip
def test_uv_is_told_in_its_own_words(listed, environment):
    assert uv_settings(listed) == environment


@pytest.mark.parametrize("listed", [
    "global.find-links='~/wheels'",
    "global.no-index='true'",
    "global.constraint='/etc/pins.txt'",
    "global.keyring-provider='subprocess'",
    "global.client-cert='/etc/me.pem'",
    "global.pre='true'",
    f"global.timeout='9'\nglobal.index-url='{MIRROR}'\ninstall.index-url='https://other.example/simple'",
    f"global.cert='{__file__}'\n:env:.cert='{__file__}'",
    "global.cert='~/ca.pem'",
    "global.cert='/etc'",
    "global.extra-index-url='https://a.example/simple http://b.example/simple'",
])  # fmt: skip
def test_pip_does_without_uv_where_uv_may_understand_it_otherwise(listed):
    assert uv_settings(listed) is None


class Index(SimpleHTTPRequestHandler):
    """Lets in whoever knows the password, and breaks where it is told to."""

    def do_GET(self):
        if self.path.startswith("/broken"):
            self.send_error(500)
        elif self.headers.get("Authorization") != f"Basic {base64.b64encode(b'me:canary').decode()}":
            self.send_error(401)
        else:
            super().do_GET()


@pytest.fixture
def mirror(tmp_path, uv_wheel):
    """Its address with its password."""
    shelf = tmp_path / "simple"
    put(shelf / "uv", uv_wheel.name, uv_wheel.read_bytes())
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path / "wheel", version)
        put(shelf / "kit-canary", f"kit_canary-{version}-py3-none-any.whl", (tmp_path / "wheel").read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=str(tmp_path)))
    Thread(target=server.serve_forever).start()
    yield f"http://me:canary@127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def uv_wheel(tmp_path_factory):
    """From where this machine gets packages."""
    folder = tmp_path_factory.mktemp("uv")
    pins = str(PROJECT / "requirements.txt")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-c", pins, "-d", str(folder), "uv"]
    subprocess.run(command, check=True)
    [wheel] = folder.iterdir()
    return wheel


def put(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    (folder / "index.html").write_text("".join(f'<a href="{file}">{file}</a>\n' for file in os.listdir(folder)))


def write_wheel(path, version):
    about = f"kit_canary-{version}.dist-info"
    with ZipFile(path, "w") as wheel:
        wheel.writestr("kit_canary.py", "")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: kit-canary\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")


def installed(tmp_path, mirror, **environment):
    """(the canary's version, who installed it, the module's words); pip is told of that mirror and of nothing else."""
    none = dict.fromkeys([name for name in os.environ if name.startswith("PIP_")], "")
    own = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{mirror}/simple", "no_proxy": "127.0.0.1"}
    arguments = {"path": f"{tmp_path}/mxnet", "python": sys.executable, "packages": ["kit-canary"], "constraints": ""}
    told = call("mxnet_venv", "mxnet_runtime", arguments, **(none | own | environment))
    assert "Failed to compute a product with MXNet" in told["msg"]
    [installer] = tmp_path.glob("mxnet/lib/python3*/site-packages/kit_canary-*/INSTALLER")
    return installer.parent.name.removesuffix(".dist-info"), installer.read_text().strip(), str(told)


def test_uv_installs_from_the_index_that_pip_was_told_of_whose_password_stays_there(tmp_path, mirror):
    """Even if pip was told to be quiet, which would hide where packages come from, too."""
    canary, installer, told = installed(tmp_path, mirror, PIP_QUIET="2")
    assert (canary, installer) == ("kit_canary-2.0", "uv")
    assert "canary@" not in told
    files = [path for path in (tmp_path / "mxnet").rglob("*") if path.is_file()]
    assert [path for path in files if b"canary@" in path.read_bytes()] == []


def test_settings_that_only_pip_understands_hold(tmp_path, mirror):
    (tmp_path / "pins.txt").write_text("kit-canary<2\n")
    (tmp_path / "pip.conf").write_text(f"[global]\nverbose = 1\n[install]\nconstraint = {tmp_path}/pins.txt\n")
    assert installed(tmp_path, mirror, PIP_CONFIG_FILE=f"{tmp_path}/pip.conf")[:2] == ("kit_canary-1.0", "pip")


def test_what_uv_fails_at_pip_installs(tmp_path, mirror):
    broken = {"PIP_EXTRA_INDEX_URL": f"{mirror}/broken", "PIP_RETRIES": "0"}
    assert installed(tmp_path, mirror, **broken)[:2] == ("kit_canary-2.0", "pip")
    assert list(tmp_path.glob("mxnet/lib/python3*/site-packages/uv"))


def test_an_index_that_lacks_uv_is_no_obstacle(tmp_path, mirror):
    shutil.rmtree(tmp_path / "simple/uv")
    assert installed(tmp_path, mirror)[:2] == ("kit_canary-2.0", "pip")
