"""LATEST of the second place: which checkpoints are whole there, newest first, and which trainer writes them.

The trainer that began last owns the place. One that was thought dead and comes back finds another owner there, and
stops writing: two machines never mix their checkpoints.
"""

import time
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from trainer.spot.place import PlaceError, SwappedError

KEY = "LATEST"
# The name of a file or folder in that folder itself: what is read over there must not lead anywhere else here.
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]


class TakenOverError(PlaceError):
    """A trainer that began later owns the place."""


class Copy(BaseModel):
    """A checkpoint that is whole over there, under `checkpoints/<directory>/`."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: FileName
    directory: FileName  # <name>-<begin of the SHA-256 of its checksums.json>: one directory, one content
    step: int
    validated_epochs: int

    @property
    def position(self) -> tuple[int, int]:
        return self.step, self.validated_epochs


class Latest(BaseModel):
    """What LATEST said when it was read or written last."""

    model_config = ConfigDict(frozen=True)

    owner: dict[str, Any]  # {id, host, started}
    copies: tuple[Copy, ...]
    written: float = 0.0
    tag: Any = Field(None, exclude=True)


def read(place) -> Latest:
    """PlaceError when it cannot be read."""
    text, tag = place.read(KEY)
    if text is None:
        return Latest(owner={}, copies=())
    try:
        return Latest.model_validate_json(text).model_copy(update={"tag": tag})
    except ValueError as error:
        raise PlaceError(
            f"{KEY} of the mirror must be what this version of the kit writes, got {text[:80]!r}; "
            "give the run another checkpoint_mirror"
        ) from error


def claim(place, owner: dict, claimed_before: bool) -> Latest:
    """Makes `owner` the one who writes; TakenOverError when it was so before and is no longer."""
    latest = read(place)
    while latest.owner.get("id") != owner["id"]:
        if claimed_before:
            raise _taken_over(latest)
        try:
            latest = _swap(place, latest.model_copy(update={"owner": owner}), latest.copies)
        except SwappedError:  # the owner before wrote at this very moment
            latest = read(place)
    return latest


def check(place, latest: Latest) -> None:
    """TakenOverError when the place has another owner meanwhile."""
    found = read(place)
    if found.owner.get("id") != latest.owner["id"]:
        raise _taken_over(found)


def write(place, latest: Latest, copies: Iterable[Copy]) -> Latest:
    """Says which copies are whole now; TakenOverError when the place has another owner meanwhile."""
    try:
        return _swap(place, latest, copies)
    except SwappedError:
        found = read(place)
    if found.owner.get("id") != latest.owner["id"]:
        raise _taken_over(found)
    return write(place, found, copies)  # it was this trainer's own write, whose answer got lost


def _swap(place, latest: Latest, copies: Iterable[Copy]) -> Latest:
    new = Latest(owner=latest.owner, copies=tuple(copies), written=round(time.time(), 3))
    tag = place.swap(KEY, new.model_dump_json(indent=1).encode(), latest.tag)
    return new.model_copy(update={"tag": tag})


def _taken_over(latest: Latest) -> TakenOverError:
    host = latest.owner.get("host", "somebody")
    return TakenOverError(f"the mirror was taken over by a trainer on {host} that began later: nothing is sent there")
