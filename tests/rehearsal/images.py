"""The double's machine images as layers to boot from: what a host had on its disk when its image was made."""

from pathlib import Path
from typing import Any

from network import call

from tests.rehearsal.machine import Machine


class Images:
    """`layers` are what every image has that no host was made into, the uppermost first."""

    def __init__(self, folder: Path, layers: list[Path]):
        self._folder, self._layers = folder, layers
        self._by_id: dict[str, list[Path]] = {}

    def layers(self, image_id: str) -> list[Path]:
        return self._by_id.get(image_id, self._layers)

    def follow(self, images: list[dict[str, Any]], machines: dict[str, Machine]) -> None:
        """Keeps the disks of the machines that have become images."""
        for row in images:
            if row["id"] in self._by_id:
                continue
            if row["copied_from"]:
                self._by_id[row["id"]] = self.layers(row["copied_from"])
            elif machine := machines.get(row["instance"]):
                self._by_id[row["id"]] = [self._take(machine, row["id"]), *machine.layers]

    def _take(self, machine: Machine, image_id: str) -> Path:
        """As a snapshot of a disk that is in use does."""
        layer = self._folder / image_id
        call("cp", "--archive", str(machine.host.directory / "upper"), str(layer))
        return layer
