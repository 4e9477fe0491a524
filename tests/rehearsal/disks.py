"""The double's volumes and snapshots as disk images: each holds what it was made from."""

from pathlib import Path
from typing import Any

from network import call


class Disks:
    """`given` are the images of the snapshots that are there from the start, by id."""

    def __init__(self, folder: Path, given: dict[str, Path]):
        self._folder, self._given = folder, given

    def image(self, thing_id: str) -> Path:
        """Of a volume or a snapshot; root volumes have none."""
        return self._given.get(thing_id) or self._folder / f"{thing_id}.img"

    def follow(self, snapshots: list[dict[str, Any]], volumes: list[dict[str, Any]]) -> None:
        """Makes the images of what is new and removes those of what is gone."""
        for row in snapshots:  # before the volumes: one that was deleted just now still has its image here
            self._make_copy(row["id"], row["copied_from"] or row["volume"])
        for row in volumes:
            if row["snapshot"]:
                self._make_copy(row["id"], row["snapshot"], row["size_gib"])
            elif not row["root"] and not self.image(row["id"]).exists():
                _grow(self.image(row["id"]), row["size_gib"])
        alive = {row["id"] for row in snapshots + volumes}
        for path in self._folder.glob("*.img"):
            if path.stem not in alive:
                path.unlink()

    def _make_copy(self, thing_id: str, source_id: str, size_gib: int = 0) -> None:
        source, image = self.image(source_id), self.image(thing_id)
        if source.exists() and not image.exists():
            call("cp", "--sparse=always", str(source), str(image))
            _grow(image, size_gib)


def _grow(image: Path, size_gib: int) -> None:
    with image.open("ab") as file:
        file.truncate(max(size_gib << 30, file.tell()))
