"""Writes checkpoints and removes old ones; trainer.learn.checkpoint says what they are."""

import json
import shutil
import time
from pathlib import Path

from trainer.errors import DiskError
from trainer.files import sync, write_whole
from trainer.learn import checkpoint
from trainer.learn.checkpoint import UNFINISHED, Progress, Whole, progress_of
from trainer.learn.parameters import write_arrays
from trainer.learn.snapshot import Snapshot, size_bytes
from trainer.run import Run

# state.json, checksums.json, names of arrays, blocks of the file system.
_EXTRA_BYTES = 1_000_000


class Writer:
    """Writes into one run. Holds which checkpoints are whole, so that each is read only once.

    whole: those at the start, newest first. kept: how many of the newest stay; the best in validation stays, too.
    """

    def __init__(self, run: Run, kept: int, whole: Whole):
        self._run, self._kept, self._whole = run, kept, whole

    @property
    def newest(self) -> Path | None:
        return next(iter(self._whole), None)

    def has(self, progress: Progress) -> bool:
        """Whether there is a checkpoint of this very state."""
        return self._path(progress) in self._whole

    def write(self, snapshot: Snapshot, state: dict) -> dict:
        """Writes a checkpoint, points LATEST at it, removes what need not stay; `step`, `bytes`, `path` of its event.

        DiskError when it cannot be written; the others are untouched then.
        """
        progress = progress_of(state)
        final = self._path(progress)
        try:
            self._make_room(size_bytes(snapshot))
            _write(final, snapshot, state | {"saved": time.time()})
            self._whole = checkpoint.newest_first(self._whole | {final: state})
            checkpoint.name_latest(self._run, final)
            self._remove_old(state["data"]["val"])
        except (OSError, DiskError) as error:
            shutil.rmtree(_unfinished(final), ignore_errors=True)
            raise DiskError(f"{final}: the checkpoint could not be written: {error}") from error
        size = sum(path.stat().st_size for path in final.iterdir())
        return {"step": progress.step, "bytes": size, "path": str(final)}

    def _path(self, progress: Progress) -> Path:
        return self._run.checkpoints / f"{progress.step:08d}-{progress.validated_epochs}"

    def _make_room(self, size: int) -> None:
        """Leftovers go; DiskError when there is too little space even so."""
        self._run.checkpoints.mkdir(parents=True, exist_ok=True)
        checkpoint.remove_unfinished(self._run)
        free = shutil.disk_usage(self._run.checkpoints).free
        if free < size + _EXTRA_BYTES:
            raise DiskError(f"it needs {(size + _EXTRA_BYTES) / 1e6:,.1f} MB, its disk has {free / 1e6:,.1f} MB free")

    def _remove_old(self, data_val: dict | None) -> None:
        stay = {*list(self._whole)[: self._kept], checkpoint.best(self._whole, data_val)}
        for path in self._whole.keys() - stay:
            checkpoint.remove(path)
            del self._whole[path]


def _write(final: Path, snapshot: Snapshot, state: dict) -> None:
    unfinished = _unfinished(final)
    unfinished.mkdir()
    for name, arrays in snapshot.items():
        write_arrays(unfinished / name, arrays)
        sync(unfinished / name)
    write_whole(unfinished / "state.json", json.dumps(state, indent=1))
    write_whole(unfinished / "checksums.json", json.dumps(checkpoint.checksums(unfinished), indent=1))
    if final.exists():  # damaged
        shutil.rmtree(final)
    unfinished.rename(final)
    sync(final.parent)


def _unfinished(final: Path) -> Path:
    return final.with_name(final.name + UNFINISHED)
