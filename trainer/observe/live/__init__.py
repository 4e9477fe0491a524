"""A run as the live page shows it: read bit by bit, in bounded memory, for any number of readers."""

import threading
import time

from trainer.observe.costs import costs, read_price, rented_until
from trainer.observe.history import is_number
from trainer.observe.live.doctor import Doctor
from trainer.observe.live.learning import Learning
from trainer.observe.page import live
from trainer.observe.ranges import Ranges, gpus_of, machine_json, machine_row, speed_json, speed_row
from trainer.observe.rollup import known
from trainer.observe.story import story
from trainer.observe.summary import seconds_left, state_of
from trainer.observe.tail import Follower
from trainer.run import Run

# A look takes no longer than this: what is left of a long log comes with the next ones.
_LOOK_SECONDS = 0.5
_CHUNK_BYTES = 1 << 20
_STORY = 50
# No step for this long is too long: before the first one, in a validation, and while steps go on.
_FIRST_STEP_SECONDS, _VALIDATION_SECONDS, _SILENT_SECONDS, _SILENT_STEPS = 1800, 3600, 300, 20
_GPU_SHOWN = (
    "pci_bus_id", "util", "mem_used_mb", "mem_total_mb", "power_w", "temperature_c", "sm_clock_mhz", "throttle",
)  # fmt: skip


class LiveView:
    """`page` and `asset` are constant; `now` is called once a second by one thread, `history` by any.

    newest_samples: for those who only look at now, so many of the samples are read, and no more.
    """

    def __init__(self, run: Run, newest_samples: int | None = None):
        self._run = run
        self._lock = threading.Lock()
        self._events = Follower(run.events, self._forget_events)
        self._samples = Follower(run.samples, self._forget_samples, newest_samples)
        self._files = 0  # how often a log was replaced by another one
        self._forget_events()
        self._forget_samples()

    def page(self) -> bytes:
        """The HTML page: it needs `asset`s, /history.json and /events beside it, and nothing else."""
        return live.page(self._run.name)

    def asset(self, name: str) -> tuple[bytes, str] | None:
        """(content, content type) of a file of the page; names change with their contents. None: no such file."""
        return live.asset(name)

    def history(self) -> dict:
        """All that has been read so far, in at most some 700 points a curve."""
        with self._lock:
            return {
                "revision": self._revision(), "run": self._run.name, "speed": speed_json(self._speed),
                "machine": machine_json(self._machine, self._gpus), "learning": self._learning.curves(),
                "validations": self._learning.validations(), "marks": self._learning.marks(),
                "story": story(self._learning.history)[-_STORY:], "now": self._message(),
            }  # fmt: skip

    def now(self) -> dict:
        """This second: what is new at the end of the curves, and what has no curve.

        `revision` is another one than that of a reader's `history` when that has to be asked for again.
        """
        with self._lock:
            self._read()
            return {
                "revision": self._revision(), "speed": speed_json(self._speed, tail=True),
                "machine": machine_json(self._machine, self._gpus, tail=True),
                "learning": self._learning.curves(tail=True), **self._message(),
            }  # fmt: skip

    def _forget_events(self) -> None:
        self._learning, self._speed = Learning(), Ranges()
        self._files, self._caught_up = self._files + 1, False

    def _forget_samples(self) -> None:
        self._doctor, self._machine, self._gpus = Doctor(), Ranges(), 0
        self._files, self._caught_up = self._files + 1, False

    def _read(self) -> None:
        until = time.monotonic() + _LOOK_SECONDS
        for event in _pieces(self._events, until):
            self._learning.read(event)
            if event.get("kind") == "step" and is_number(event.get("t")):
                self._speed.add(event["t"], speed_row(event))
        for sample in _pieces(self._samples, until):
            if is_number(sample.get("t")):
                self._gpus = max(self._gpus, len(gpus_of(sample)))
                self._machine.add(sample["t"], machine_row(sample))
                self._doctor.read(sample)
        self._caught_up = self._caught_up or time.monotonic() < until

    def _revision(self) -> list:
        return [
            self._learning.revision, self._learning.width, self._speed.width, self._machine.width, self._gpus,
            self._caught_up, self._files,
        ]  # fmt: skip

    def _message(self) -> dict:
        now, last, step = time.time(), self._doctor.last, self._learning.step
        state = state_of(self._run, self._learning.history)
        left, step_age = seconds_left(step, self._learning.history.start, state, now), _age(step, now)
        price, loaded = read_price(self._run.price), self._loaded()
        return {
            **self._learning.result(), "t": round(now, 3), "state": state,
            "activity": last.get("activity"), "loaded": loaded,
            "sample_age_seconds": _age(last, now), "seconds_left": left,
            "step_age_seconds": step_age, "has_stepped": step.get("kind") == "step",
            "stands_still": state == "running" and self._stands_still(step, last, step_age),
            "step": step.get("step"), "steps_total": step.get("steps_total"), "epoch": step.get("epoch"),
            "epochs": step.get("epochs"), "loss": step.get("loss"), "learning_rate": step.get("learning_rate"),
            "speed_now": last.get("images_per_second"),
            "doctor": self._doctor.found() if loaded == 1 else None,
            "gpus": [{key: gpu.get(key) for key in _GPU_SHOWN} for gpu in gpus_of(last)],
            "cpu": last.get("cpu"), "costs": costs(price, self._rented_until(now, state), left) if price else None,
        }  # fmt: skip

    def _stands_still(self, step: dict, last: dict, age: float | None) -> bool:
        batch_size = known(self._learning.history.start.get("batch_size"))
        return age is not None and age > _longest_silence(step, batch_size, last.get("activity") == "validation")

    def _rented_until(self, now: float, state: str) -> float:
        history = self._learning.history
        return rented_until(now, state == "running", history.start, (history.ended, self._doctor.last.get("t")))

    def _loaded(self) -> float:
        """The part of the run's logs that has been read, 0-1; 1 from when all of it was, though they grow."""
        return 1 if self._caught_up else round(min(self._events.share(), self._samples.share(), 0.999), 3)


def _pieces(follower: Follower, until: float):
    while piece := follower.new(_CHUNK_BYTES):
        yield from piece
        if time.monotonic() >= until:
            return


def _age(entry: dict, now: float) -> float | None:
    return round(max(now - entry["t"], 0.0), 1) if is_number(entry.get("t")) else None


def _longest_silence(step: dict, batch_size: float | None, validates: bool) -> float:
    """Seconds without a step that are not too long yet, by the rules of the alert TrainerHung."""
    if step.get("kind") != "step":
        return _FIRST_STEP_SECONDS
    if validates:
        return _VALIDATION_SECONDS
    speed = known(step.get("images_per_second"))
    step_seconds = batch_size / speed if batch_size and speed else 0.0
    return max(_SILENT_STEPS * step_seconds, _SILENT_SECONDS)
