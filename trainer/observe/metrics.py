"""A run's metrics for Prometheus, from the files in its directory: no counter of them lives in this process alone."""

import json
import os
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from trainer import __version__, lease
from trainer.checkpoint_files import directories
from trainer.observe.costs import costs, read_price, rented_until
from trainer.observe.gpu_metrics import gpu_metrics
from trainer.observe.history import is_number
from trainer.observe.metric import counter, counter_by, gauge, gauge_by, histogram, info
from trainer.observe.summary import seconds_left
from trainer.observe.tail import Follower, read_last
from trainer.observe.totals import Totals
from trainer.observe.training_state import read_roof
from trainer.run import Run

# What the machine did longer ago than this says nothing about now: its gauges are left out.
FRESH_SECONDS = 15.0
# A look reads so much at once, however long the log is.
_BLOCK_BYTES = 1 << 20


class RunMetrics:
    """`refresh` reads what is new in the run's directory; `text` is what a scrape gets, as of the last refresh."""

    def __init__(self, run: Run):
        self._run, self._totals, self._follower = run, Totals(), Follower(run.events, self._forget)
        self._metrics: list[Metric] = []
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def refresh(self, now: float | None = None) -> None:
        """The first one reads all that has happened so far: a second for each 100 MB of events or so."""
        now = time.time() if now is None else now
        self._read_events()
        sample = (read_last(self._run.samples, 2) or [{}])[-1]  # the last line may be half written
        self._metrics = [
            metric for metric in (
                *_of_the_process(self._run, self._totals), *_of_training(self._totals), *_of_learning(self._totals),
                *_of_checkpoints(self._run, self._totals), *_of_trouble(self._run, self._totals),
                *_of_the_machine(self._run, self._totals, sample, now),
                *_of_money(self._run, self._totals, sample, now),
            ) if metric.samples
        ]  # fmt: skip

    def text(self) -> bytes:
        """In Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)

    def _read_events(self) -> None:
        while block := self._follower.new(_BLOCK_BYTES):
            for event in block:
                self._totals.add(event)

    def _forget(self) -> None:
        self._totals = Totals()


def _of_the_process(run: Run, totals: Totals) -> Iterator[Metric]:
    start = totals.newest.get("start", {})
    labels = {"version": str(start.get("version", __version__)), "mxnet": str(start.get("mxnet", "")), "run": run.name}
    yield info("trainer_build", "Versions, and the only place for the run's name", labels)
    yield gauge("trainer_up", "Whether a process trains this run now", int(lease.holder(run) is not None))
    yield gauge("trainer_finished", "Whether the last epoch is done", int(totals.finished))
    yield gauge("trainer_validating", "Whether a validation is under way", int(totals.validating))
    yield gauge("trainer_start_timestamp_seconds", "When training last began or went on", start.get("t"))


def _of_training(totals: Totals) -> Iterator[Metric]:
    step = totals.newest.get("step", {})
    yield counter("trainer_steps", "Steps trained; those trained again after an interruption count again", totals.steps)
    yield counter("trainer_samples", "Images trained; those trained again count again", totals.samples)
    yield counter("trainer_data_wait_seconds", "Time that training waited for data", totals.data_wait_seconds)
    yield histogram("trainer_step_duration_seconds", "Of steps, by the mean of each report", totals.step_seconds)
    yield gauge("trainer_last_step_timestamp_seconds", "When the newest step was reported", step.get("t"))


def _of_learning(totals: Totals) -> Iterator[Metric]:
    step, validation = totals.newest.get("step", {}), totals.newest.get("validation", {})
    losses = {"train": step.get("loss"), "validation": validation.get("loss")}
    yield gauge_by("trainer_loss", "Newest loss", "split", losses)
    accuracies = {"validation": validation.get("top1")}
    yield gauge_by("trainer_accuracy_ratio", "Newest share of right answers (top 1)", "split", accuracies)
    yield gauge("trainer_learning_rate", "Learning rate of the newest step", step.get("learning_rate"))
    yield gauge("trainer_epoch", "Epochs done", step.get("epoch"))
    epoch, epochs = step.get("epoch"), step.get("epochs")
    known = is_number(epoch) and is_number(epochs) and epochs > 0
    yield gauge("trainer_progress_ratio", "Share of the epochs that is done", epoch / epochs if known else None)


def _of_checkpoints(run: Run, totals: Totals) -> Iterator[Metric]:
    newest = totals.newest.get("checkpoint", {})
    seconds = totals.checkpoint_seconds
    yield histogram("trainer_checkpoint_duration_seconds", "From a save's begin until it is on disk", seconds)
    failures = totals.checkpoint_failures
    yield counter("trainer_checkpoint_failures", "Checkpoints that could not be written", failures)
    when = newest.get("t", _time_of_files(run))
    yield gauge("trainer_last_checkpoint_timestamp_seconds", "When the newest checkpoint was on disk", when)
    interval = newest.get("interval_seconds")
    yield gauge("trainer_checkpoint_interval_seconds", "Time between two checkpoints, as planned", interval)


def _time_of_files(run: Run) -> float | None:
    """Of the newest checkpoint that no event tells of: a full disk may have lost it."""
    try:
        return directories(run)[-1].stat().st_mtime
    except (IndexError, OSError):
        return None


def _of_trouble(run: Run, totals: Totals) -> Iterator[Metric]:
    interruptions, restarts = totals.interruptions, totals.restarts
    yield counter_by("trainer_interruptions", "What took the machine or the trainer away", "kind", interruptions)
    yield counter_by("trainer_restarts", "Starts after the first, by why the one before ended", "reason", restarts)
    yield counter("trainer_bad_records", "Damaged records that were met and left out", totals.bad_records)
    yield counter("trainer_imds_errors", "Failed questions to the metadata service, told so far", totals.imds_errors)
    told = _json(run.mirror_state).get("failures_total")
    failures = totals.mirror_failures_before + max(totals.mirror_failures, told if is_number(told) else 0)
    yield counter("trainer_mirror_failures", "Failed tries to reach the second place for checkpoints", failures)


def _of_the_machine(run: Run, totals: Totals, sample: dict, now: float) -> Iterator[Metric]:
    when = sample.get("t") if is_number(sample.get("t")) else None
    yield gauge("trainer_last_sample_timestamp_seconds", "When the machine was last looked at", when)
    roof = read_roof(run.tuning, totals.newest.get("start", {}))
    yield gauge("trainer_roof_images_per_second", "What this run could train at best, as measured by tune", roof)
    disk = os.statvfs(run.directory)
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    yield gauge("trainer_disk_free_bytes", "Space left where the run's directory is", free)
    yield gauge("trainer_disk_size_bytes", "Size of the file system of the run's directory", size)
    if when is not None and now - when <= FRESH_SECONDS:
        speed = sample.get("images_per_second")
        yield gauge("trainer_images_per_second", "Images trained in a second, by all devices together", speed)
        attained = min(speed / roof, 1.0) if roof and is_number(speed) else None
        yield gauge("trainer_attained_ratio", "Speed as a share of the roof", attained)
        yield from gpu_metrics(sample)


def _of_money(run: Run, totals: Totals, sample: dict, now: float) -> Iterator[Metric]:
    price = read_price(run.price)
    if price is None:
        return
    step, trains = totals.newest.get("step", {}), lease.holder(run) is not None
    start, state = totals.newest.get("start", {}), "finished" if totals.finished else "running" if trains else "stopped"
    left = seconds_left(step, start, state, now)
    heard = [event["t"] for event in totals.newest.values()] + [sample.get("t")]
    until = rented_until(now, trains, start, heard)
    money = costs(price, until, left)
    yield counter("trainer_cost_usd", "What the run's machines have cost", money["so_far_usd"])
    yield gauge("trainer_price_usd_per_hour", "What this machine costs", money["price_usd_per_hour"])
    yield gauge("trainer_cost_forecast_usd", "What the run will have cost at its end", money["forecast_usd"])
    yield gauge("trainer_budget_usd", "What the run may cost", money["budget_usd"])


def _json(path) -> dict:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
