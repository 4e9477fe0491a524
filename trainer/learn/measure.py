"""The two halves of training alone: the input without a network, the network without input."""

import time
from collections.abc import Callable
from contextlib import closing

import mxnet as mx
import numpy as np

from trainer.config import Config
from trainer.data.batch import Batch
from trainer.learn.schedule import peak_learning_rate
from trainer.learn.session import make_stepper, open_checked, train_loader

# The first steps plan memory, choose algorithms and fill queues.
WARMUP_STEPS = 5
MEASURE_SECONDS = 20.0


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
    rate = peak_learning_rate(config) * 1e-3  # random labels must not make the weights explode
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


def _synthetic_batch(config: Config) -> Batch:
    generator = np.random.default_rng(config.seed)
    images = generator.standard_normal((config.batch_size, *config.image_shape), dtype=np.float32)
    labels = generator.integers(0, config.num_classes, config.batch_size).astype(np.float32)
    return Batch(images=images, labels=labels, epoch=0, position=0)
