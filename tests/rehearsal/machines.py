"""The machines behind the double's instances: real systemd hosts that boot, train and end as the instances do.

    with running(scenario) as endpoint, machines(endpoint, layers.with_mxnet(), folder, {"snap-1": image}) as fleet: ...

The scenario needs `timing = [{pending = "forever"}]`: an instance runs when its host does. A host that powers itself
off is an instance that does. Needs root (tests/hosts/image.py says what else).
"""

import contextlib
import json
import threading
import traceback
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from tests.rehearsal.disks import Disks
from tests.rehearsal.images import Images
from tests.rehearsal.machine import Machine
from tests.rehearsal.metadata import give_notice

ALIVE = ("pending", "running")
POLL_SECONDS = 0.1


class Machines:
    """Follows the double at `endpoint`. `failure` is what ended the following, None while all is well."""

    def __init__(self, endpoint: str, images: Images, disks: Disks):
        self._endpoint, self.images, self._disks = endpoint, images, disks
        self._killed: set[str] = set()
        self.over = threading.Event()
        self.failure: Exception | None = None
        self.by_id: dict[str, Machine] = {}

    def follow(self) -> None:
        """Until `over` is set; then all hosts are taken down."""
        try:
            while not self.over.wait(POLL_SECONDS):
                self.settle()
        except Exception as error:
            self.failure = error
            traceback.print_exc()
        for machine in self.by_id.values():
            machine.end(at_once=True)

    def settle(self) -> None:
        """Makes the hosts and disks as the double says, once."""
        state = self.ask("machines")
        self._disks.follow(state["snapshots"], state["volumes"])
        self.images.follow(state["images"], self.by_id)
        alive = {row["id"]: row for row in state["instances"] if row["state"] in ALIVE}
        for gone in self.by_id.keys() - alive.keys():
            self.by_id.pop(gone).end(at_once=gone in self._killed)
        for row in alive.values():
            self._settle_one(row)

    def _settle_one(self, row: dict[str, Any]) -> None:
        machine = self.by_id.get(row["id"])
        if machine is None:
            machine = self.by_id[row["id"]] = Machine(row, self.images.layers(row["image"]), self._endpoint)
            self.ask("booted", instance=row["id"], address=machine.host.address)
        if machine.runs:
            machine.attach(row["volumes"], self._disks)
        else:
            self.ask("power_off", instance=row["id"])

    def lose(self, instance_id: str) -> None:
        """The machine is gone from one moment to the next, without a notice; AWS takes the instance back."""
        self._killed.add(instance_id)
        self.ask("interrupt", instance=instance_id)

    def interrupt(self, instance_id: str, seconds: float = 120) -> None:
        """AWS takes the instance back after a notice of so many seconds."""
        give_notice(self.by_id[instance_id].metadata, seconds)
        timer = threading.Timer(seconds, self.lose, [instance_id])
        timer.daemon = True
        timer.start()

    def change(self, scenario: dict[str, Any]) -> None:
        """Another market from here on; what exists goes on existing."""
        self._send("scenario", tomli_w.dumps(scenario).encode())

    def ask(self, action: str, **body: str) -> Any:
        """The double's own address space: GET without a body."""
        return self._send(action, json.dumps(body).encode() if body else None)

    def _send(self, action: str, data: bytes | None) -> Any:
        with urllib.request.urlopen(f"{self._endpoint}/double/{action}", data, timeout=60) as answer:
            return json.load(answer)


@contextlib.contextmanager
def machines(endpoint: str, layers: list[Path], folder: Path, given: dict[str, Path]) -> Iterator[Machines]:
    """Machines that follow the double as long as the block lasts; `given` are images of the scenario's snapshots.

    They boot `layers`, but those of an image that was made from one of them: what that one had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fleet = Machines(endpoint, Images(folder, layers), Disks(folder, given))
    thread = threading.Thread(target=fleet.follow, daemon=True)
    thread.start()
    try:
        yield fleet
    finally:
        fleet.over.set()
        thread.join()
    if fleet.failure:
        raise fleet.failure
