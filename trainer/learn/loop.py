"""The training loop: steps, progress, validation, checkpoints, and one way to stop."""

import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from trainer.config import Config
from trainer.data.loader import TrainLoader
from trainer.data.records import RecordFile
from trainer.errors import NonFiniteLossError
from trainer.learn import checkpoint
from trainer.learn.checkpoint import Progress
from trainer.learn.export import write_symbol_and_params
from trainer.learn.schedule import learning_rate, total_samples, total_steps
from trainer.learn.speed import Speed
from trainer.learn.step import Stepper
from trainer.learn.validate import Validator
from trainer.run import Run

# A loss is read this many steps late: reading it at once would make the devices wait for Python at each step.
LOSS_LAG_STEPS = 2
REPORT_SECONDS = 2.0


@dataclass
class Loop:
    """Everything that a run in progress holds.

    `report(kind, **fields)` receives its events, `stop` becomes true when somebody asks it to stop.
    """

    config: Config
    run: Run
    stepper: Stepper
    loader: TrainLoader
    validation_records: RecordFile | None
    report: object
    stop: object
    progress: Progress

    def __post_init__(self):
        self.examples = self.loader.examples
        self.goal = total_samples(self.config, self.examples)
        self.speed = Speed()
        self.losses = deque()
        self.validator = None
        self.reported = False  # since the last validation
        self.loss = self.learning_rate = None
        self.saved_at = self.started = time.monotonic()
        self.before = Progress(**vars(self.progress))

    def fit(self) -> None:
        """Trains until the last epoch is done or `stop` is set; the last act is always a checkpoint.

        NonFiniteLossError when a loss is NaN or infinite: nothing is saved then.
        """
        batches = self.loader.at(*divmod(self.progress.samples, self.examples), stop=lambda: bool(self.stop))
        try:
            self._validate_if_due()  # a run that was stopped inside a validation owes it
            while self.progress.samples < self.goal and not self.stop:
                self._step(batches)
                self._report_if_due()
                self._validate_if_due()
                self._save_if_due()
        finally:
            batches.close()
        self._save()

    @property
    def finished(self) -> bool:
        return self.progress.samples >= self.goal and not self._validation_due()

    def times(self) -> dict:
        """Seconds over the whole run, earlier processes included."""
        return {
            "train_seconds": round(self.before.train_seconds + self.speed.train_seconds(), 3),
            "wall_seconds": round(self.before.wall_seconds + time.monotonic() - self.started, 3),
        }

    def _step(self, batches) -> None:
        waiting_since = time.monotonic()
        batch = next(batches, None)
        if batch is None:  # asked to stop while there was no data
            return
        waited = time.monotonic() - waiting_since
        self.learning_rate = learning_rate(self.config, self.progress.samples, self.examples)
        losses = self.stepper.step(batch, self.progress.step, self.learning_rate)
        self.losses.append((self.progress.step, self.learning_rate, losses))
        self.progress.step += 1
        self.progress.samples += self.config.batch_size
        self.speed.add(self.config.batch_size, waited)
        self._read_losses(LOSS_LAG_STEPS)

    def _read_losses(self, lag_steps: int) -> None:
        """Waits for all but the newest losses and stops at one that is not a number."""
        while len(self.losses) > lag_steps:
            step, rate, arrays = self.losses.popleft()
            self.loss = float(np.mean([array.asscalar() for array in arrays]))
            if not np.isfinite(self.loss):
                self._give_up(f"loss is {self.loss} at step {step}", step, rate)

    def _give_up(self, what: str, step: int, rate: float) -> None:
        """The weights that gave such a loss may have been saved while their own losses were still good."""
        checkpoint.forget_from(self.run, step)
        kept = "the last good checkpoint is kept" if checkpoint.newest(self.run) else "no checkpoint was written yet"
        raise NonFiniteLossError(
            f"the {what} (learning rate {rate:.4g}, batch {self.config.batch_size}, warm-up "
            f"{self.config.warmup_epochs:g} epochs): lower the learning rate or lengthen the warm-up; "
            f"{kept}"
        )

    def _report_if_due(self) -> None:
        every = self.config.display_steps
        due = self.progress.step % every == 0 if every else self.speed.window_seconds() >= REPORT_SECONDS
        if due:
            self._report_step()

    def _report_step(self) -> None:
        """Nothing when this process has not made a step yet."""
        if self.progress.step == self.before.step:
            return
        if self.loss is None:
            self._read_losses(0)
        self.reported = True
        self.report(
            "step", step=self.progress.step, steps_total=total_steps(self.config, self.examples),
            epoch=round(self.progress.samples / self.examples, 4), epochs=self.config.epochs,
            samples=self.progress.samples, loss=round(self.loss, 5), learning_rate=self.learning_rate,
            **self.speed.take_window(), seconds_left=round(self._seconds_left(), 1),
        )

    def _seconds_left(self) -> float:
        """By the average speed of this process so far, validation and saving included."""
        done = self.progress.samples - self.before.samples
        return max(0, self.goal - self.progress.samples) * (time.monotonic() - self.started) / max(1, done)

    def _validation_due(self) -> bool:
        if self.validation_records is None:
            return False
        ended = self.progress.samples // self.examples
        whole = min(ended, int(self.config.epochs))
        unfinished_epoch = self.progress.samples >= self.goal and self.config.epochs % 1 > 0
        return self.progress.validated_epochs < whole + unfinished_epoch

    def _validate_if_due(self) -> None:
        if not self._validation_due():
            return
        self._read_losses(0)
        if not self.reported:  # an epoch shorter than the reports' interval
            self._report_step()
        self.speed.pause()
        self.report("validating", step=self.progress.step)
        self.validator = self.validator or Validator(self.config, self.stepper.contexts)
        result = self.validator.validate(self.stepper.network, self.validation_records, self.stop)
        self.speed.resume()
        if result is not None:
            self._count_validation(result)

    def _count_validation(self, result: dict) -> None:
        if not np.isfinite(result["loss"]):
            what = f"validation loss is {result['loss']} after step {self.progress.step}"
            self._give_up(what, self.progress.step, self.learning_rate or 0.0)
        self.progress.validated_epochs += 1
        self.reported = False
        self.progress.top1 = result["top1"]
        self.progress.best_top1 = max(result["top1"], self.progress.best_top1 or 0.0)
        epoch = min(self.progress.samples / self.examples, self.config.epochs)
        self.report("validation", step=self.progress.step, epoch=round(epoch, 4), **result)
        if self.config.model_prefix is not None:
            write_symbol_and_params(
                self.stepper.network, self.config.model_prefix, self.progress.validated_epochs
            )

    def _save_if_due(self) -> None:
        if time.monotonic() - self.saved_at >= self.config.checkpoint_interval_seconds:
            self._save()

    def _save(self) -> None:
        """Only a state whose losses are all known to be finite is worth keeping."""
        self._read_losses(0)
        self.speed.pause()
        times = self.times()
        self.progress.train_seconds, self.progress.wall_seconds = times["train_seconds"], times["wall_seconds"]
        fields = checkpoint.save(
            self.run, self.config, self.progress, self.stepper.network, self.stepper.trainer
        )
        self.report("checkpoint", **fields)
        self.saved_at = time.monotonic()
        self.speed.resume()
