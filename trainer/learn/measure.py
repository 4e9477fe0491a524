"""The two halves of training alone: the input without a network, the network without input."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing

import mxnet as mx
import numpy as np

from trainer.config import Config
from trainer.data.batch import Batch
from trainer.learn.loop import LOSS_LAG_STEPS
from trainer.learn.schedule import peak_learning_rate
from trainer.learn.session import make_stepper, open_checked, train_loader

# The first steps plan memory, choose algorithms and fill queues.
WARMUP_STEPS = 5
MEASURE_SECONDS = 20.0
STRETCH_SECONDS = 2.0


def network_rates(config: Config) -> Iterator[float]:
    """images/s of the network alone, one for each stretch of some seconds; endless."""
    stepper, _ = make_stepper(config)
    batch, rate = _synthetic_batch(config), _harmless_rate(config)
    yield from _stretches(config.batch_size, lambda step: stepper.step(batch, step, rate))


def input_rates(config: Config) -> Iterator[float]:
    """images/s of the input alone, one for each stretch of some seconds; endless."""
    records = open_checked(config.data_train, config)
    with closing(records), closing(train_loader(records, config, report=None)) as loader:
        batches = loader.at(0, 0)
        with closing(batches):
            yield from _stretches(config.batch_size, lambda _step: next(batches) and [])


def _stretches(batch_size: int, run_step: Callable[[int], list]) -> Iterator[float]:
    """run_step gives arrays to wait for; they are waited for some steps later, as training does."""
    ahead: deque = deque()

    def step(number: int) -> None:
        ahead.append(run_step(number))
        if len(ahead) > LOSS_LAG_STEPS:
            for array in ahead.popleft():
                array.wait_to_read()

    number = 0
    for number in range(WARMUP_STEPS):  # noqa: B007
        step(number)
    while True:
        began, steps = time.monotonic(), 0
        while time.monotonic() - began < STRETCH_SECONDS:
            number, steps = number + 1, steps + 1
            step(number)
        yield steps * batch_size / (time.monotonic() - began)


def input_alone(config: Config, say: Callable[[str], None]) -> dict:
    """Reads, decodes and augments batches and throws them away; `images_per_second`, `steps`, `seconds`."""
    records = open_checked(config.data_train, config)
    with closing(records), closing(train_loader(records, config, report=None)) as loader:
        batches = loader.at(0, 0)
        with closing(batches):
            return _measure(config, lambda _step: next(batches), lambda: None, say)


def network_alone(config: Config, say: Callable[[str], None]) -> dict:
    """Trains on one batch of random images again and again; `images_per_second`, `steps`, `seconds`."""
    stepper, _ = make_stepper(config)
    batch = _synthetic_batch(config)
    rate = _harmless_rate(config)
    return _measure(config, lambda step: stepper.step(batch, step, rate), mx.nd.waitall, say)


def _measure(config: Config, run_step: Callable, wait: Callable, say: Callable[[str], None]) -> dict:
    for step in range(WARMUP_STEPS):
        run_step(step)
    wait()
    started = shown = time.monotonic()
    steps = shown_steps = 0
    every = config.display_steps or 20
    while time.monotonic() - started < MEASURE_SECONDS:
        run_step(WARMUP_STEPS + steps)
        steps += 1
        if steps % every == 0:
            wait()
            now = time.monotonic()
            say(f"step {steps}: {(steps - shown_steps) * config.batch_size / (now - shown):,.1f} images/s")
            shown, shown_steps = now, steps
    wait()
    seconds = time.monotonic() - started
    return {
        "images_per_second": round(steps * config.batch_size / seconds, 2), "steps": steps,
        "seconds": round(seconds, 3),
    }


def _harmless_rate(config: Config) -> float:
    """Random labels must not make the weights explode."""
    return peak_learning_rate(config) * 1e-3


def _synthetic_batch(config: Config) -> Batch:
    generator = np.random.default_rng(config.seed)
    images = generator.standard_normal((config.batch_size, *config.image_shape), dtype=np.float32)
    labels = generator.integers(0, config.num_classes, config.batch_size).astype(np.float32)
    return Batch(images=images, labels=labels, epoch=0, position=0)
