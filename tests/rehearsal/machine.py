"""One instance of the double as a real host: boots, has its volumes as disks, its metadata service, and ends."""

import contextlib
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import host as hosts
from image import KEY

from tests.rehearsal.cloud_init import first_boot
from tests.rehearsal.disks import Disks
from tests.rehearsal.door import Address, door
from tests.rehearsal.metadata import metadata
from trainer.spot.practice import serving

# The metadata service by this name: its address is another one in each host.
METADATA_URL = "http://metadata.invalid"
_AWS_PORT, _METADATA_PORT = 5000, 80


class Machine:
    """Boots at once. Raises RuntimeError or TimeoutError when it cannot. While `cut_off` is set it reaches no AWS."""

    def __init__(self, instance: dict[str, Any], layers: list[Path], endpoint: str):
        self.id, self.zone, self.layers = instance["id"], instance["zone"], layers
        self._xen = instance["hypervisor"] == "xen"
        self._attached: dict[str, str] = {}
        self.cut_off = threading.Event()
        with contextlib.ExitStack() as services:
            self.metadata = services.enter_context(serving(metadata(instance)))
            self.host = hosts.up(layers, lambda host: self._prepare(host, instance, endpoint, services))
            self._services = services.pop_all()

    def _prepare(
        self, host: hosts.Host, instance: dict[str, Any], endpoint: str, services: contextlib.ExitStack
    ) -> None:
        _take_back_what_tests_add(host)
        first_boot(host.root, instance["user_data"], instance["login_key"])
        _tell_where(host)
        _leave_room(host)
        services.enter_context(door((host.gateway, _AWS_PORT), _address(endpoint), self.cut_off))
        services.enter_context(door((host.gateway, _METADATA_PORT), _address(self.metadata.url)))

    @property
    def runs(self) -> bool:
        return self.host.process.poll() is None

    def attach(self, wanted: dict[str, str], disks: Disks) -> None:
        """Gives it these volumes ({id: device}) as disks, and takes away the others."""
        for volume in self._attached.keys() - wanted.keys():
            self.host.detach(volume)
            del self._attached[volume]
        for volume, device in wanted.items():
            if volume not in self._attached:
                self.host.attach(volume, disks.image(volume), xen_letter=device[-1] if self._xen else "")
                self._attached[volume] = device

    def end(self, at_once: bool) -> None:
        """Shuts it down, or cuts its power."""
        if at_once and self.runs:
            hosts.kill(self.host)
        hosts.down(self.host)
        self._services.close()


def _take_back_what_tests_add(host: hosts.Host) -> None:
    """An image that was made from a host has that one's disks, and has lost the tests' own way in."""
    for rule in (host.root / "etc/udev/rules.d").glob("61-disk*.rules"):
        rule.unlink()
    (host.root / "root/.ssh/authorized_keys").write_bytes(KEY.with_suffix(".pub").read_bytes())


def _tell_where(host: hosts.Host) -> None:
    """AWS's services have addresses that every machine knows; the double's are told to all units and logins here."""
    etc = host.root / "etc"
    with (etc / "hosts").open("a") as file:
        file.write(f"{host.gateway} {urlsplit(METADATA_URL).hostname}\n")
    where = [f"AWS_ENDPOINT_URL=http://{host.gateway}:{_AWS_PORT}"]
    where += [f"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://{host.gateway}:{_METADATA_PORT}"]
    (etc / "systemd/system.conf.d").mkdir(exist_ok=True)
    (etc / "systemd/system.conf.d/double.conf").write_text(f"[Manager]\nDefaultEnvironment={' '.join(where)}\n")
    with (etc / "environment").open("a") as file:
        file.write("".join(f"{line}\n" for line in where))
    # The proxy of the hosts, too: a machine of AWS needs none to install something.
    kept = [*(one.split("=")[0] for one in where), "http_proxy", "https_proxy", "no_proxy"]
    (etc / "sudoers.d/double").write_text(f'Defaults env_keep += "{" ".join(kept)}"\n')
    (etc / "sudoers.d/double").chmod(0o440)


def _leave_room(host: hosts.Host) -> None:
    """The plays share this machine's cores with the training."""
    folder = host.root / "etc/systemd/system/trainer.service.d"
    folder.mkdir(exist_ok=True)
    (folder / "nice.conf").write_text("[Service]\nNice=19\n")


def _address(url: str) -> Address:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80
