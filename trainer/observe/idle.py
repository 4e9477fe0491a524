"""Whether a rented host does nothing any more but cost money."""

import json
import time
from dataclasses import dataclass

from trainer.checkpoint_files import directories
from trainer.observe import events
from trainer.observe.words import duration
from trainer.run import Run

# What is not in the second place is lost with the host: its rent for a day is less than the run's, for weeks it is not.
UNMIRRORED_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Standing:
    """finished: whether the run is. quiet_seconds: since its last step, its end, or the beginning of the watch.

    mirrored: whether its newest checkpoint is in the second place; True without a checkpoint.
    """

    finished: bool
    quiet_seconds: float
    mirrored: bool


def standing(run: Run, watched_seconds: float) -> Standing:
    """How the run stands. watched_seconds: since when its host is watched; what was before counts for nothing."""
    ended = events.newest(run.events) or {}
    finished = (ended.get("kind"), ended.get("reason")) == ("stop", "finished")
    # A trainer that crashes and starts again and again writes events, but makes no step.
    alive = ended if finished else events.newest(run.events, "step", "validation") or {}
    quiet_seconds = min(time.time() - alive.get("t", 0), watched_seconds)
    return Standing(finished, quiet_seconds, _is_mirrored(run))


def is_due(now: Standing, finished_seconds: float, idle_seconds: float) -> bool:
    """Whether training can be ended and the last of it be sent to the second place."""
    return now.quiet_seconds >= (finished_seconds if now.finished else idle_seconds)


def is_safe(now: Standing) -> bool:
    """Whether the host can go."""
    return now.mirrored or now.quiet_seconds >= UNMIRRORED_SECONDS


def words(now: Standing, finished_seconds: float, idle_seconds: float) -> str:
    """The standing as a sentence."""
    what = "finished" if now.finished else "no step"
    limit = finished_seconds if now.finished else idle_seconds
    mirrored = "" if now.mirrored else "; the second place lacks its newest checkpoint"
    return f"{what} for {duration(now.quiet_seconds)} of {duration(limit)}{mirrored}"


def _is_mirrored(run: Run) -> bool:
    newest = directories(run)[-1:]
    try:
        return not newest or json.loads(run.mirror_state.read_bytes())["checkpoint"] == newest[0].name
    except (OSError, ValueError, KeyError, TypeError):  # no second place, or one of which nothing is known
        return False
