"""The way back: a host whose run directory is empty, or behind, gets the checkpoints of the second place."""

import os
import shutil
from collections.abc import Callable

from trainer.checkpoint_files import CHECKSUMS, publish, unfinished
from trainer.config import Config
from trainer.errors import DataError
from trainer.files import sync, write_whole
from trainer.run import Run
from trainer.spot import owner
from trainer.spot.local import directory_of, is_file_whole, newest_whole, read_checksums
from trainer.spot.place import PlaceError, place_of

# The events come after what the run was tuned to: they say that it has begun, and whoever has begun is not tuned.
_LOGS = ("tuning.json", "events.jsonl", "samples.jsonl")


class DamagedError(DataError):
    """A checkpoint over there is not the one that was sent."""


def fetch(run: Run, config: Config, say: Callable[[str], None]) -> None:
    """Brings what the second place has and the run directory has not, if the newest whole checkpoint is over there.

    A run directory without events gets those of the second place, and what the run was tuned to.
    Files are checked against their SHA-256 before they get their names; a damaged checkpoint is passed over. When the
    place cannot be reached, a run that has a checkpoint here goes on from it; PlaceError when it has none: training
    from the start would throw away the run. DataError when nothing here or there is whole.
    """
    here = newest_whole(run)
    try:
        place = place_of(config.checkpoint_mirror, config.run_directory.name)
        latest = owner.read(place)
        if latest.copies and (here is None or latest.copies[0].position > here.copy.position):
            say(f"{config.checkpoint_mirror} has step {latest.copies[0].step:,}, {_here(here)}: bringing it here")
            _bring_all(place, run, latest, here, say)
        if latest.copies and not run.events.exists():
            _bring_logs(place, run)
    except (PlaceError, OSError) as error:
        if here is None:
            raise PlaceError(
                f"{error}\nthe checkpoints of this run may be there, and none is here: mend that; "
                "to train from the start, remove checkpoint_mirror from the configuration"
            ) from error
        say(f"{error}\ncontinuing from the checkpoint that is here (step {here.copy.step:,})")


def _here(checkpoint) -> str:
    return f"here is step {checkpoint.copy.step:,}" if checkpoint else "here is none"


def _bring_all(place, run: Run, latest: owner.Latest, here, say) -> None:
    newest = None
    for copy in latest.copies:
        try:
            _bring(place, run, copy)
        except DamagedError as error:
            say(f"passed over: {error}")
            continue
        if newest is None:
            newest = copy
            write_whole(run.latest, copy.name + "\n")
            say(f"checkpoint of step {copy.step:,} is here")
    if newest is None and here is None:
        raise DataError(
            "no checkpoint of the mirror is whole, and none is here; to train from the start, give the run another "
            "name or another checkpoint_mirror"
        )


def _bring(place, run: Run, copy: owner.Copy) -> None:
    """Files that an earlier try brought are not brought again."""
    folder = unfinished(run.checkpoints / copy.name)
    folder.mkdir(parents=True, exist_ok=True)
    checksums = _checksums(place, copy)
    for path in folder.iterdir():  # of a killed writer
        if path.name not in checksums:
            path.unlink()
    _refuse_full_disk(place, folder, copy)
    for name, sha256 in checksums.items():
        if not is_file_whole(folder / name, sha256):
            place.get(f"checkpoints/{copy.directory}/{name}", folder / name)
        if not is_file_whole(folder / name, sha256):
            raise DamagedError(f"{copy.directory}/{name}: must have the SHA-256 {sha256[:16]}..., got another one")
        sync(folder / name)
    sync(folder)
    publish(run.checkpoints / copy.name)  # one with that name is damaged, or of weights that were given up


def _refuse_full_disk(place, folder, copy: owner.Copy) -> None:
    needed = sum(place.sizes(f"checkpoints/{copy.directory}/").values())
    needed -= sum(path.stat().st_size for path in folder.iterdir())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(f"{folder}: must have {needed / 1e6:,.1f} MB of space, got {free / 1e6:,.1f} MB")


def _checksums(place, copy: owner.Copy) -> dict[str, str]:
    """The directory's own name says which checksums.json is the right one."""
    text, _ = place.read(f"checkpoints/{copy.directory}/{CHECKSUMS}")
    try:
        checksums = read_checksums(text or b"")
    except ValueError as error:
        raise DamagedError(f"{copy.directory}/{CHECKSUMS}: must be SHA-256 by file name, got {text!r:.80}") from error
    if directory_of(copy.name, checksums) != copy.directory:
        raise DamagedError(f"{copy.directory}/{CHECKSUMS}: must be the one that was sent, got another one")
    return checksums


def _bring_logs(place, run: Run) -> None:
    there = place.sizes("")
    for name in _LOGS:
        if name in there:
            draft = run.directory / f".{name}.{os.getpid()}.draft"
            place.get(name, draft)
            os.replace(draft, run.directory / name)
