"""Writes checkpoints and removes old ones; trainer.learn.checkpoint says what they are."""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from trainer import checkpoint_files
from trainer.checkpoint_files import unfinished
from trainer.errors import ConfigError, DiskError
from trainer.files import sync, write_whole
from trainer.learn import checkpoint
from trainer.learn.checkpoint import Progress, Whole, progress_of
from trainer.learn.parameters import write_arrays
from trainer.learn.snapshot import Snapshot, size_bytes
from trainer.run import Run

# state.json, checksums.json, names of arrays, blocks of the file system.
_EXTRA_BYTES = 1_000_000


class Writer:
    """Writes into one run. Holds which checkpoints are whole, so that each is read only once.

    whole: those at the start, newest first. kept: how many of the newest stay; the best in validation stays, too.
    still_ours: whether this process may still write the run; asked before each thing that another trainer could miss.
    """

    def __init__(self, run: Run, kept: int, whole: Whole, still_ours: Callable[[], bool]):
        self._run, self._kept, self._whole, self._still_ours = run, kept, whole, still_ours

    @property
    def newest(self) -> Path | None:
        return next(iter(self._whole), None)

    def has(self, progress: Progress) -> bool:
        """Whether there is a checkpoint of this very state."""
        return self._path(progress) in self._whole

    def write(self, snapshot: Snapshot, state: dict) -> dict:
        """Writes a checkpoint, then `keep_house`; `step`, `bytes`, `path` of its event.

        DiskError when it cannot be written: the others are untouched then. ConfigError when another has taken the run.
        """
        progress = progress_of(state)
        final = self._path(progress)
        try:
            self._make_room(size_bytes(snapshot))
            _fill(unfinished(final), snapshot, state | {"saved": time.time()})
            self._must_be_ours()
            checkpoint_files.publish(final)
        except (OSError, DiskError) as error:
            shutil.rmtree(unfinished(final), ignore_errors=True)
            raise DiskError(f"{final}: the checkpoint could not be written: {error}") from error
        self._whole = checkpoint.newest_first(self._whole | {final: state})
        self.keep_house()
        size = sum(path.stat().st_size for path in final.iterdir())
        return {"step": progress.step, "bytes": size, "path": str(final)}

    def keep_house(self) -> None:
        """Points LATEST at the newest checkpoint; removes those that need not stay, the damaged among them.

        What fails is no loss, and is tried again after the next save.
        """
        self._must_be_ours()
        with suppress(OSError):
            checkpoint.name_latest(self._run, self.newest)
        data_val = self._whole[self.newest]["data"]["val"]
        stay = {*list(self._whole)[: self._kept], checkpoint.best(self._whole, data_val)}
        self._whole = {path: state for path, state in self._whole.items() if path in stay}
        for path in set(checkpoint_files.directories(self._run)) - stay:
            with suppress(OSError):
                checkpoint_files.remove(path)

    def _path(self, progress: Progress) -> Path:
        return self._run.checkpoints / f"{progress.step:08d}-{progress.validated_epochs}"

    def _make_room(self, size: int) -> None:
        """Leftovers go; DiskError when there is too little space even so."""
        self._must_be_ours()
        self._run.checkpoints.mkdir(parents=True, exist_ok=True)
        checkpoint_files.remove_unfinished(self._run)
        free = shutil.disk_usage(self._run.checkpoints).free
        if free < size + _EXTRA_BYTES:
            raise DiskError(f"it needs {(size + _EXTRA_BYTES) / 1e6:,.1f} MB, its disk has {free / 1e6:,.1f} MB free")

    def _must_be_ours(self) -> None:
        if not self._still_ours():
            raise ConfigError(f"{self._run.directory}: must be trained by one process at a time; another has taken it")


def _fill(directory: Path, snapshot: Snapshot, state: dict) -> None:
    directory.mkdir()
    for name, arrays in snapshot.items():
        write_arrays(directory / name, arrays)
        sync(directory / name)
    write_whole(directory / "state.json", json.dumps(state, indent=1))
    checkpoint_files.write_checksums(directory)
