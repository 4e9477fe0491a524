"""A host with K80s whose wheel and libraries are small stand-ins: MXNet's wheel for the CPU computes for them."""

import hashlib
import io
import tarfile
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import yaml
from fakes.nvml import HOST_SCRIPT, FakeNvml
from host import Host
from plays import PROJECT

SOURCE = Path(__file__).parent / "gpus" / "gpus_as_cpus.py"
NAMES = yaml.safe_load((PROJECT / "roles/mxnet_runtime/vars/main.yml").read_text())["__mxnet_runtime_cuda_102_names"]
WHEEL = "opt/mxnet_cu102-1.9.1-py3-none-any.whl"
ABOUT = "Metadata-Version: 2.1\nName: mxnet-cu102\nVersion: 1.9.1\nRequires-Dist: mxnet==1.9.1\n"


def give_gpus(host: Host, count: int) -> FakeNvml:
    nvml = FakeNvml(host.root / "usr/local/lib", host.root / HOST_SCRIPT, gpus=count)
    host.run("ldconfig")
    return nvml


def settings(host: Host, version: int = 1) -> dict:
    """Of the role; `version` makes the libraries' archive another one."""
    return {
        "mxnet_runtime_packages": ["mxnet", "numpy"], "__mxnet_runtime_wheels": _wheel(host),
        "mxnet_runtime_cuda_102_url": "file:///opt/cuda.tar", "mxnet_runtime_cuda_102_sha256": _archive(host, version),
    }


def _wheel(host: Host) -> str:
    """A line of pip's requirements."""
    path = host.root / WHEEL
    about = "mxnet_cu102-1.9.1.dist-info"
    content = {
        "gpus_as_cpus.py": SOURCE.read_text(), "gpus_as_cpus.pth": "import gpus_as_cpus\n", f"{about}/METADATA": ABOUT,
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", f"{about}/RECORD": "",
    }
    with ZipFile(path, "w") as wheel:
        for name, text in content.items():
            wheel.writestr(ZipInfo(name), text)  # without today's time: it has always the same hash
    return f"mxnet-cu102 @ file:///{WHEEL} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def _archive(host: Host, version: int) -> str:
    """Its SHA-256."""
    path = host.root / "opt/cuda.tar"
    with tarfile.open(path, "w") as tar:
        for name in NAMES:
            content = f"{name} {version}\n".encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()
