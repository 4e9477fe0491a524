"""Brings the second place up to date with the run directory: the newest checkpoint first, then those kept beside it."""

from collections.abc import Callable
from contextlib import ExitStack

from trainer.checkpoint_files import CHECKSUMS, damage_of
from trainer.run import Run
from trainer.spot import owner
from trainer.spot.local import Checkpoint, checkpoints, fingerprint
from trainer.spot.orders import Orders


class _GoneError(Exception):
    """A checkpoint was rotated away before it was opened, or a newer one appeared: look again."""


def bring_up_to_date(
    place, latest: owner.Latest, run: Run, orders: Orders, arrived: Callable, damaged: dict[str, str]
) -> owner.Latest:
    """Sends what is missing and removes what the run directory has no longer; returns what LATEST says now.

    `arrived(checkpoint, sent_bytes)` is called when the newest checkpoint is whole over there. Those that are damaged
    here are passed over; `damaged` remembers what is wrong with them. Errors: PlaceError.
    """
    before = fingerprint(run)
    here = [one for one in checkpoints(run) if one.copy in latest.copies or not _is_damaged(one, damaged)]
    if not here:
        return latest

    def changed() -> bool:
        return fingerprint(run) != before

    try:
        for checkpoint in here:
            latest = _bring(place, latest, checkpoint, here, orders, arrived, changed)
    except _GoneError:
        return latest
    copies = tuple(checkpoint.copy for checkpoint in here)
    if latest.copies != copies:
        latest = owner.write(place, latest, copies)
    place.keep_only({copy.directory for copy in copies})
    return latest


def withdraw(place, latest: owner.Latest) -> owner.Latest:
    """The run directory has no checkpoint any more (their weights were bad): neither has the second place."""
    latest = owner.write(place, latest, ())
    place.keep_only(())
    return latest


def _is_damaged(checkpoint: Checkpoint, damaged: dict[str, str]) -> bool:
    """One that is rotated away meanwhile is not."""
    name = checkpoint.copy.directory
    if name not in damaged and (wrong := damage_of(checkpoint.path)) and checkpoint.path.is_dir():
        damaged[name] = f"{checkpoint.path}: is damaged here and not sent: {wrong}"
    return name in damaged


def _bring(place, latest, checkpoint, here, orders, arrived, changed) -> owner.Latest:
    is_newest = checkpoint is here[0]
    sent = 0
    if checkpoint.copy not in latest.copies:
        sent = _send(place, checkpoint, orders, give_up=None if is_newest else changed)
        latest = owner.write(place, latest, _listed(latest, checkpoint, here))
    if is_newest:
        arrived(checkpoint, sent)
    return latest


def _listed(latest: owner.Latest, new: Checkpoint, here: list[Checkpoint]) -> tuple[owner.Copy, ...]:
    """The newest one first. What was the newest until now stays until all of the run directory is there."""
    order = [checkpoint.copy for checkpoint in here]
    there = {new.copy, *latest.copies[:1], *(copy for copy in latest.copies if copy in order)}
    return tuple(sorted(there, key=lambda copy: order.index(copy) if copy in order else len(order)))


def _send(place, checkpoint: Checkpoint, orders: Orders, give_up: Callable | None) -> int:
    """Bytes sent. checksums.json goes last. The files are held open: rotation cannot take them away half-way."""
    directory = f"checkpoints/{checkpoint.copy.directory}/"
    there, sent = place.sizes(directory), 0

    def pace(count: int) -> None:
        nonlocal sent
        sent += count
        orders.pace(count)
        if give_up and give_up():
            raise _GoneError

    with ExitStack() as opened:
        for name, file in _open(checkpoint, opened).items():
            size = file.seek(0, 2)
            file.seek(0)
            if there.get(directory + name) != size:
                place.put(directory + name, file, checkpoint.checksums[name], pace)
    return sent


def _open(checkpoint: Checkpoint, opened: ExitStack) -> dict:
    names = [*(name for name in checkpoint.checksums if name != CHECKSUMS), CHECKSUMS]
    try:
        return {name: opened.enter_context(open(checkpoint.path / name, "rb")) for name in names}
    except FileNotFoundError:
        raise _GoneError from None
