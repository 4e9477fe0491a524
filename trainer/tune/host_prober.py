"""Measures this host: each probe a process of its own, with the settings of the configuration, within a time budget."""

import json
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trainer import errors
from trainer.config import Config
from trainer.run import PROJECT
from trainer.tune.figures import EXPLORE, DoesNotFitError, Effort, Measured, OutOfTimeError, Probe

# Before the first probe has shown what its start takes.
_START_SECONDS = 20.0
# Validation and checkpoint of a proof, for each second that it measures.
_EPOCH_SECONDS = 8.0
_LOOK_SECONDS = 0.2
# A CPU gains nothing from larger batches: where a step takes longer, the search for the largest ends.
_MOST_CPU_STEP_SECONDS = 1.0
_EXIT_CODES = {
    error.exit_code: error
    for error in (errors.DataError, errors.DeviceError, errors.DiskError, errors.ConfigError)
}
# Of a process that the system ended for want of memory, and of one that C++ ended for the same.
_KILLED, _ABORTED = -9, -6


class StoppedError(Exception):
    """Somebody asked to stop."""


@dataclass
class HostProber:
    """`is_stopped()` is looked at all the time; what a probe writes lies in `scratch`."""

    config: Config
    budget_seconds: float
    is_stopped: Callable[[], bool]
    scratch: Path
    began: float = field(default_factory=time.monotonic)
    start_seconds: float = _START_SECONDS
    rate: float | None = None

    def seconds_left(self) -> float:
        return self.budget_seconds - (time.monotonic() - self.began)

    def seconds_for(self, most_seconds: float) -> float:
        return self.start_seconds + most_seconds

    def most_batch(self) -> int | None:
        is_cpu = self.config.devices[0].startswith("cpu")
        return max(self.config.batch_size, int(_MOST_CPU_STEP_SECONDS * self.rate)) if is_cpu and self.rate else None

    def __call__(self, probe: Probe) -> Measured:
        """Also TrainerError when a probe fails for another reason, StoppedError."""
        if self.is_stopped():
            raise StoppedError
        began = time.monotonic()
        answer = self.ask(probe.what, self._settings(probe), probe.effort, probe.noise)
        if "too_large" in answer:
            raise DoesNotFitError(answer["too_large"])
        if not answer["rates"]:
            raise OutOfTimeError
        if probe.what in ("training", "network"):
            self._learn(probe, time.monotonic() - began, answer["rates"])
        return Measured(tuple(answer["rates"]), answer.get("memory_mb"))

    def ask(self, what: str, config: Config, effort: Effort = EXPLORE, noise: float = 0.0) -> dict:
        """One probe's answer."""
        request = {
            "config": config.model_dump(mode="json", exclude_none=True), "what": what, "noise": noise,
            "most_seconds": effort.most_seconds, "confidence_share": effort.confidence_share,
            "epoch_images": int(_EPOCH_SECONDS * (self.rate or 0.0)),
        }  # fmt: skip
        with self._process(config) as process:
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass
            self._wait(process)
            return _answer(process, process.stdout.read(), (self.scratch / "log").read_text(errors="replace"))

    @contextmanager
    def _process(self, config: Config):
        """It ends with the block, and its scratch run with it."""
        shutil.rmtree(config.run_directory, ignore_errors=True)
        config.run_directory.mkdir(parents=True)
        with open(self.scratch / "log", "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "trainer.tune.probe"], cwd=PROJECT, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
            shutil.rmtree(config.run_directory, ignore_errors=True)

    def _wait(self, process: subprocess.Popen) -> None:
        while not select.select([process.stdout], [], [], _LOOK_SECONDS)[0]:
            if self.is_stopped():
                raise StoppedError
            if self.seconds_left() < 0:
                raise OutOfTimeError

    def _settings(self, probe: Probe) -> Config:
        changes = {"run_directory": self.scratch / "run"}
        if probe.batch:
            changes["batch_size"] = probe.batch
        if probe.threads:
            changes["decode_threads"] = probe.threads
        if probe.what == "float32":
            changes["precision"] = "float32"
        return self.config.model_copy(update=changes)

    def _learn(self, probe: Probe, seconds: float, rates: list[float]) -> None:
        """From what a probe took beyond its measuring, what the next will take."""
        self.rate = max(rates)
        measured = 2.0 * len(rates)
        start = max(1.0, seconds - measured)
        self.start_seconds = start if self.start_seconds == _START_SECONDS else max(start, 0.8 * self.start_seconds)


def _answer(process: subprocess.Popen, text: str, log: str) -> dict:
    code = process.wait()
    if code == 0 and text:
        return json.loads(text)
    last = (log.strip().splitlines() or ["it said nothing"])[-1]
    if code == _KILLED or (code == _ABORTED and "alloc" in log):
        return {"too_large": f"the probe was ended for want of memory: {last}"}
    error = _EXIT_CODES.get(code, errors.TrainerError)
    raise error(last if code in _EXIT_CODES else f"a probe failed (exit code {code}): {last}")

