"""Pauses in which nothing is trained and the run goes on: validations and checkpoints that the samples do not name."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from trainer.observe.diagnose.gpus import IDLE
from trainer.observe.series import numbers

# On average over a pause, in %: a GPU that hangs is pinned at 100 or idle; one between gets new work all the time.
PINNED = 85.0
# Waiting for data this part of a pause is the input's doing.
STARVED = 0.5


@dataclass(frozen=True)
class Pauses:
    """`training`: samples without validations. `idle_share`: their part in which idle devices do not wait for data."""

    training: Sequence[dict]
    idle_share: float


def set_apart(samples: Sequence[dict], moments: Sequence[float], least_seconds: float) -> Pauses:
    """Pauses last at least `least_seconds`; `moments`: the time of each sample, in seconds."""
    pauses = _pauses(samples, moments, least_seconds)
    idle = [rows for rows in pauses if _idle_and_fed(samples[rows])]
    left_out = [rows for rows in pauses if fmean(_utils(samples[rows]) or [0.0]) > IDLE]
    if len(idle) == 1 and not _tell_checkpoints(samples):  # one pause is no habit
        left_out, idle = left_out + idle, []
    gone = {row for rows in left_out for row in range(rows.start, rows.stop)}
    training = [sample for row, sample in enumerate(samples) if row not in gone]
    if not training:
        return Pauses(samples, 0.0)
    return Pauses(training, sum(rows.stop - rows.start for rows in idle) / len(training))


def gets_new_work(samples: Sequence[dict]) -> bool:
    """Whether most devices are busy for a part of the time only: then somebody feeds them."""
    utils = _utils(samples)
    return 2 * sum(IDLE < util < PINNED for util in utils) > len(utils)


def _pauses(samples: Sequence[dict], moments: Sequence[float], least_seconds: float) -> list[slice]:
    """Where the speed is told to be 0 for so long."""
    speeds = numbers(samples, "images_per_second")
    groups = [list(rows) for silent, rows in groupby(range(len(speeds)), lambda row: speeds[row] == 0) if silent]
    return [slice(rows[0], rows[-1] + 1) for rows in groups if moments[rows[-1]] - moments[rows[0]] >= least_seconds]


def _idle_and_fed(pause: Sequence[dict]) -> bool:
    utils, waits = _utils(pause), [wait for wait in numbers(pause, "data_wait_share") if wait is not None]
    return bool(utils and waits) and fmean(utils) <= IDLE and fmean(waits) < STARVED


def _tell_checkpoints(samples: Sequence[dict]) -> bool:
    return any(share is not None for share in numbers(samples, "checkpoint_share"))


def _utils(samples: Sequence[dict]) -> list[float]:
    """The mean utilisation of each place in the list of devices, in %; of those that tell it."""
    lists = [numbers(sample["gpus"], "util") for sample in samples if isinstance(sample.get("gpus"), list)]
    places = [[row[place] for row in lists if len(row) > place] for place in range(max(map(len, lists), default=0))]
    known = [[util for util in place if util is not None] for place in places]
    return [fmean(utils) for utils in known if utils]
