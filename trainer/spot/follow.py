"""The mirror process: follows a run directory and keeps the second place up to date, until its trainer is gone.

mirror.json in the run directory says how it goes:

    checkpoint, step   the newest checkpoint that is whole over there
    seconds, bytes     what it took to send it
    failures_total     how often the second place could not be reached or refused
    error              why the last try failed; null when it did not
    given_up           whether it will not try again: another trainer took the place over
    owner, claimed     the trainer's id; whether the place was ever its own
    t                  time of the last change
"""

import fcntl
import json
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from trainer.config import Config
from trainer.errors import ConfigError
from trainer.files import write_whole
from trainer.observe import events
from trainer.run import Run
from trainer.spot import owner as owners
from trainer.spot.local import Checkpoint, fingerprint
from trainer.spot.orders import Orders
from trainer.spot.place import PlaceError, place_of
from trainer.spot.upload import bring_up_to_date, withdraw

POLL_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
# The logs grow without end and are sent whole: at most once a minute, and at most 5 % of the time is spent on them.
LOGS_SECONDS = 60.0
LOGS_SHARE = 0.05


@dataclass
class State:
    """What mirror.json holds."""

    owner: str
    checkpoint: str | None = None
    step: int | None = None
    seconds: float | None = None
    bytes: int | None = None
    failures_total: int = 0
    error: str | None = None
    given_up: bool = False
    claimed: bool = False
    t: float = 0.0


class Follower:
    """One trainer's mirror; `attempt` is one look at the run directory."""

    def __init__(self, run: Run, config: Config, owner: dict, orders: Orders):
        self.run, self.config, self.owner, self.orders = run, config, owner, orders
        self.state = _state_before(run, owner["id"])
        self.place = self.latest = self.seen = None
        self.logs_sent, self.logs_due, self.started = {}, 0.0, 0.0
        self.damaged: dict[str, str] = {}  # what is wrong with checkpoints here, by the name of their copy

    def attempt(self) -> bool:
        """Whether all that there is here is over there now."""
        if self.state.given_up:
            return True
        try:
            self._bring()
        except owners.TakenOverError as error:
            self._failed(str(error), given_up=True)
        except Exception as error:  # whatever goes wrong, training goes on, and so do the tries
            self._failed(str(error) or type(error).__name__)
            self.place = None
            return False
        else:
            self._say(error=None)
        return True

    def _bring(self) -> None:
        if self.place is None:  # made anew after each failure: credentials may have been renewed meanwhile
            place = place_of(self.config.checkpoint_mirror, self.config.run_directory.name)
            self.latest = owners.claim(place, self.owner, self.state.claimed)
            self.place, self.seen, self.state.claimed = place, None, True
            self._save()
        now, known = fingerprint(self.run), len(self.damaged)
        if now != self.seen:
            self.started = time.monotonic()
            self.latest = bring_up_to_date(self.place, self.latest, self.run, self.orders, self._arrived, self.damaged)
            self.seen = now
        if not now and self.latest.copies and _gave_up(self.run):
            self.latest = withdraw(self.place, self.latest)
            self._say(checkpoint=None, step=None)
        self._bring_logs()
        if len(self.damaged) > known:  # said once: the next look passes over them
            raise PlaceError("\n".join([*self.damaged.values()][known:]))

    def _arrived(self, checkpoint: Checkpoint, sent_bytes: int) -> None:
        if self.state.checkpoint != checkpoint.path.name or sent_bytes:
            self._say(
                checkpoint=checkpoint.path.name, step=checkpoint.copy.step, bytes=sent_bytes, error=None,
                seconds=round(time.monotonic() - self.started, 3),
            )

    def _bring_logs(self) -> None:
        if time.monotonic() < self.logs_due and not self.orders.ended:
            return
        started = time.monotonic()
        owners.check(self.place, self.latest)
        told = (self.run.config, self.run.tuning, self.run.events, self.run.samples)
        logs = [path for path in told if path.exists()]
        now = {path: path.stat().st_mtime_ns for path in logs}
        for path in now:
            if self.logs_sent.get(path) != now[path]:
                self.place.copy(path.name, path, self.orders.pace)
        self.logs_sent = now
        took = time.monotonic() - started
        self.logs_due = time.monotonic() + max(LOGS_SECONDS, took / LOGS_SHARE)

    def _failed(self, error: str, given_up: bool = False) -> None:
        self._say(error=error, failures_total=self.state.failures_total + 1, given_up=given_up)

    def _say(self, **changes) -> None:
        before = asdict(self.state)
        for key, value in changes.items():
            setattr(self.state, key, value)
        if asdict(self.state) != before:
            self._save()

    def _save(self) -> None:
        self.state.t = round(time.time(), 3)
        with suppress(OSError):  # a full disk, a run directory that was removed
            write_whole(self.run.mirror_state, json.dumps(asdict(self.state), indent=1))


def follow(run: Run, config: Config, owner: dict, orders: Orders, patient: bool) -> State:
    """Mirrors until the trainer is gone, and once more then; how it ended.

    patient: waits until the mirror process before, whose trainer is gone, has finished what it was sending; else
    ConfigError when there is one.
    """
    with _only_mirror(run, patient):
        follower, pause = Follower(run, config, owner, orders), 0.0
        while True:
            last = orders.ended
            pause = 0.0 if follower.attempt() else min(max(2 * pause, 1.0), LONGEST_PAUSE_SECONDS)
            if last:
                return follower.state
            orders.wait(pause or POLL_SECONDS)
            if orders.hurry:
                pause = 0.0


def read_state(run: Run) -> dict:
    """mirror.json; empty when there is none."""
    try:
        values = json.loads(run.mirror_state.read_text())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _state_before(run: Run, owner_id: str) -> State:
    """How far another mirror process of the same trainer came before it died; of others only the failures count."""
    values = read_state(run)
    if values.get("owner") == owner_id:
        return State(**values)
    return State(owner_id, failures_total=values.get("failures_total", 0))


def _gave_up(run: Run) -> bool:
    """Whether training itself removed all checkpoints: a disk that is gone must not empty the second place."""
    last = events.newest(run.events) or {}
    return (last.get("kind"), last.get("reason")) == ("stop", "non_finite_loss")


@contextmanager
def _only_mirror(run: Run, patient: bool):
    with open(run.mirror_lock, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"--run must have one mirror process at a time, got a second for {run.name}") from None
        yield
