"""The training loop: steps, progress, validation, checkpoints, and one way to stop."""

import time
from collections import deque
from contextlib import closing
from dataclasses import asdict, dataclass

import numpy as np
from mxnet import nd

from trainer.config import Config
from trainer.data.loader import TrainLoader
from trainer.data.records import RecordFile
from trainer.errors import DiskError, NonFiniteLossError
from trainer.learn import checkpoint, snapshot
from trainer.learn.checkpoint import Progress
from trainer.learn.export import write_symbol_and_params
from trainer.learn.optimizer import counters
from trainer.learn.saver import Saver
from trainer.learn.schedule import learning_rate, total_samples, total_steps, validations_due
from trainer.learn.speed import Speed
from trainer.learn.step import Stepper
from trainer.learn.validate import Validator
from trainer.run import Run

# A loss is read this many steps late: reading it at once would make the devices wait for Python at each step.
LOSS_LAG_STEPS = 2
# Such steps do not notice that wait, and whoever asks to stop would wait for all the steps that are ahead.
LONG_STEP_SECONDS = 1.0
REPORT_SECONDS = 2.0


@dataclass
class Loop:
    """Everything that a run in progress holds.

    `report(kind, **fields)` receives its events, `stop` becomes true when somebody asks it to stop; it asks itself when
    `until_step` is done. `described`: what each checkpoint says of the world that it was made in.
    """

    config: Config
    run: Run
    stepper: Stepper
    loader: TrainLoader
    validation_records: RecordFile | None
    report: object
    stop: object
    progress: Progress
    saver: Saver
    described: dict
    until_step: int | None = None

    def __post_init__(self):
        self.examples = self.loader.examples
        self.goal = total_samples(self.config, self.examples)
        self.steps_total = total_steps(self.config, self.examples, self.progress.step, self.progress.samples)
        self.speed = Speed()
        self.losses = deque()
        self.step_seconds = LONG_STEP_SECONDS  # until it is known
        self.validator = None
        self.reported = False  # since the last validation
        self.loss = self.learning_rate = None
        self.started = time.monotonic()
        self.snapshot: snapshot.Snapshot = {}
        self.durable_at = None
        self.before = Progress(**vars(self.progress))

    def fit(self) -> None:
        """Trains until the last epoch is done or `stop` is set; the last act is always a checkpoint.

        NonFiniteLossError when a loss is NaN or infinite: nothing is saved then.
        """
        batches = self.loader.at(*divmod(self.progress.samples, self.examples), stop=lambda: bool(self.stop))
        with closing(self.saver):
            with closing(batches):
                self._validate_if_due()  # a run that was stopped inside a validation owes it
                while self.progress.samples < self.goal and not self._asked_to_stop():
                    if self._step(batches):
                        self._report_if_due()
                        self._save_if_due()
                        self._validate_if_due()
            self._save_last()

    @property
    def finished(self) -> bool:
        return self.progress.samples >= self.goal and not self._validation_due()

    def times(self) -> dict:
        """Seconds over the whole run, earlier processes included."""
        return {
            "train_seconds": round(self.before.train_seconds + self.speed.train_seconds(), 3),
            "wall_seconds": round(self.before.wall_seconds + time.monotonic() - self.started, 3),
        }

    def _asked_to_stop(self) -> bool:
        if self.until_step is not None and self.progress.step >= self.until_step:
            self.stop.ask("until_step")
        return bool(self.stop)

    def _step(self, batches) -> bool:
        """False when somebody asked to stop while there was no data."""
        began = time.monotonic()
        batch = next(batches, None)
        if batch is None:
            return False
        waited = time.monotonic() - began
        self.learning_rate = learning_rate(self.config, self.progress.samples, self.examples)
        losses = self.stepper.step(batch, self.progress.step, self.learning_rate)
        self.losses.append((self.progress.step, self.learning_rate, losses))
        self.progress.step += 1
        self.progress.samples += self.config.batch_size
        self.speed.add(self.config.batch_size, waited)
        self._read_losses(LOSS_LAG_STEPS if self.step_seconds < LONG_STEP_SECONDS else 0)
        self.step_seconds = time.monotonic() - began - waited
        return True

    def _read_losses(self, lag_steps: int) -> None:
        """Waits for all but the newest losses and stops at one that is not a number."""
        while len(self.losses) > lag_steps:
            step, rate, arrays = self.losses.popleft()
            self.loss = float(np.mean([array.asscalar() for array in arrays]))
            if not np.isfinite(self.loss):
                self._give_up(f"loss is {self.loss} at step {step}", step, rate)

    def _give_up(self, what: str, step: int, rate: float) -> None:
        """The weights that gave such a loss may have been saved while their own losses were still good."""
        self.saver.close()
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
            "step", step=self.progress.step, steps_total=self.steps_total,
            epoch=round(self.progress.samples / self.examples, 4), epochs=self.config.epochs,
            samples=self.progress.samples, loss=round(self.loss, 5), learning_rate=self.learning_rate,
            **self.speed.take_window(), seconds_left=round(self._seconds_left(), 1),
        )

    def _seconds_left(self) -> float:
        """By the average speed of this process so far, validation and saving included."""
        done = self.progress.samples - self.before.samples
        return max(0, self.goal - self.progress.samples) * (time.monotonic() - self.started) / max(1, done)

    def _validations_due(self) -> int:
        return validations_due(self.config, self.progress.samples, self.examples)

    def _validation_due(self) -> bool:
        return self.validation_records is not None and self.progress.validated_epochs < self._validations_due()

    def _validate_if_due(self) -> None:
        if not self._validation_due():
            return
        self._read_losses(0)
        if not self.reported:  # an epoch shorter than the reports' interval
            self._report_step()
        self.speed.pause()
        self.report("validating", step=self.progress.step)
        self.validator = self.validator or Validator(self.config, self.stepper.contexts)
        result = self.validator.validate(self.stepper.network, self.validation_records, self._leave_validation)
        self.speed.resume()
        if result is not None:
            self._count_validation(result)

    def _leave_validation(self) -> bool:
        """Asked between its batches. The weights do not change meanwhile, so that they can be saved at any of them."""
        self._save_if_due()
        return bool(self.stop)

    def _count_validation(self, result: dict) -> None:
        if not np.isfinite(result["loss"]):
            what = f"validation loss is {result['loss']} after step {self.progress.step}"
            self._give_up(what, self.progress.step, self.learning_rate or 0.0)
        # One may stand for two: a step's batch can end an epoch and, with it, the short part of one that is the last.
        self.progress.validated_epochs = self._validations_due()
        self.reported = False
        self.progress.top1 = result["top1"]
        self.progress.validated_step = self.progress.step
        is_best = self.progress.best_top1 is None or result["top1"] > self.progress.best_top1
        self.progress.best_top1 = result["top1"] if is_best else self.progress.best_top1
        epoch = min(self.progress.samples / self.examples, self.config.epochs)
        self.report("validation", step=self.progress.step, epoch=round(epoch, 4), **result)
        if self.config.model_prefix is not None:
            self._export_epoch()
        if is_best:
            self._save_in_background()

    def _export_epoch(self) -> None:
        """A disk without space does not end training."""
        prefix, epoch = self.config.model_prefix, self.progress.validated_epochs
        try:
            write_symbol_and_params(self.stepper.network, prefix, epoch)
        except (OSError, DiskError) as error:
            self.report("export_failed", step=self.progress.step, epoch=epoch, reason=str(error))

    def _save_if_due(self) -> None:
        """What is due while a save is in flight waits for the next step."""
        if not self.saver.busy and (self.stop.take_save() or self.saver.due):
            self._save_in_background()

    def _save_in_background(self) -> None:
        if self.saver.has(self.progress):
            return
        self._read_losses(0)
        nd.waitall()
        began = time.monotonic()
        self.saver.begin(*self._state(), blocked_since=began)

    def _save_last(self) -> None:
        self._read_losses(0)
        self.speed.pause()
        self.saver.save(self.progress, self._state)
        self.durable_at = time.monotonic()

    def _state(self) -> tuple[snapshot.Snapshot, dict]:
        """What a checkpoint holds: arrays and state.json. Only when all losses are known to be finite."""
        times = self.times()
        self.progress.train_seconds, self.progress.wall_seconds = times["train_seconds"], times["wall_seconds"]
        state = {"progress": asdict(self.progress), "counters": counters(self.stepper.trainer), **self.described}
        self.snapshot = snapshot.take(self.stepper.network, self.stepper.trainer, into=self.snapshot)
        return self.snapshot, state
