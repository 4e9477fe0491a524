"""When and how checkpoints are saved: in a thread while training goes on, and at the end before the process ends."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path

from trainer.config import Config
from trainer.errors import DiskError
from trainer.learn.checkpoint import Progress
from trainer.learn.interval import seconds_between_checkpoints
from trainer.learn.snapshot import Snapshot
from trainer.learn.writer import Writer

# How much nicer than the others the thread that saves is (on Linux each thread has a niceness of its own). Where all
# processors are busy it gets a tenth of one, so that no step takes much longer.
NICER = 10
# The latest saves tell what one costs: disks and checkpoints change their speed and size.
_COSTS = 5


class Saver:
    """One save at a time. `report` gets `checkpoint` and `checkpoint_failed`, from the thread that saves."""

    def __init__(self, writer: Writer, config: Config, report: Callable[..., None]):
        self._writer, self._config, self._report = writer, config, report
        self._thread: threading.Thread | None = None
        self._costs: deque[float] = deque(maxlen=_COSTS)
        self._bug: BaseException | None = None
        self._begun = time.monotonic()

    @property
    def newest(self) -> Path | None:
        """The newest checkpoint."""
        return self._writer.newest

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def interval_seconds(self) -> float:
        """Between the beginnings of two saves."""
        if self._config.checkpoint_interval != "auto":
            return self._config.checkpoint_interval
        cost = sum(self._costs) / len(self._costs) if self._costs else None
        return seconds_between_checkpoints(cost, self._config.mean_seconds_between_interruptions)

    @property
    def due(self) -> bool:
        return time.monotonic() - self._begun >= self.interval_seconds

    def has(self, progress: Progress) -> bool:
        """Whether this very state is on disk, or about to be."""
        self.wait()
        return self._writer.has(progress)

    def begin(self, snapshot: Snapshot, state: dict, blocked_since: float) -> None:
        """Saves in the background, once the save before it is done. blocked_since: when training began to wait for it.

        What cannot be written is reported, and tried again when the next one is due.
        """
        self.wait()
        self._begun = blocked_since
        save = partial(self._save_reporting, snapshot, state, time.monotonic() - blocked_since)
        self._thread = threading.Thread(target=save, name="checkpoint")
        self._thread.start()

    def save(self, progress: Progress, take: Callable[[], tuple[Snapshot, dict]]) -> None:
        """The last save, in the foreground; when this very state is on disk already, only `Writer.keep_house`.

        DiskError when it cannot be written.
        """
        if self.has(progress):
            self._writer.keep_house()
            return
        self._begun = time.monotonic()
        try:
            self._save(*take())
        except DiskError as error:
            self._report("checkpoint_failed", step=progress.step, reason=str(error), retry_seconds=None)
            newest = self._writer.newest
            stays = f"{newest} stays: training continues from there" if newest else "there is no older one"
            raise DiskError(f"{error}; {stays}") from error

    def wait(self) -> None:
        """Until no save is in flight."""
        if self._thread:
            self._thread.join()
            self._thread = None
        if self._bug:
            raise self._bug

    def close(self) -> None:
        if self._thread:
            self._thread.join()

    def _save_reporting(self, snapshot: Snapshot, state: dict, blocked_seconds: float) -> None:
        os.nice(NICER)  # of this thread alone
        try:
            self._save(snapshot, state, blocked_seconds)
        except DiskError as error:
            retry_seconds = round(self.interval_seconds, 1)
            step = state["progress"]["step"]
            self._report("checkpoint_failed", step=step, reason=str(error), retry_seconds=retry_seconds)
        except BaseException as error:
            self._bug = error

    def _save(self, snapshot: Snapshot, state: dict, blocked_seconds: float | None = None) -> None:
        written = self._writer.write(snapshot, state)
        seconds = time.monotonic() - self._begun
        self._costs.append(seconds)
        self._report(
            "checkpoint", **written, seconds=round(seconds, 4), blocked_seconds=round(blocked_seconds or seconds, 4),
            interval_seconds=round(self.interval_seconds, 1),
        )
