"""Step -> learning rate, as a pure function of the images seen, so that it survives any change of the batch size."""

import math

from trainer.config import Config

BASE_BATCH_SIZE = 256


def peak_learning_rate(config: Config) -> float:
    """The rate after warm-up: literal, or `base_learning_rate` x batch / 256 (Goyal et al. 2017, linear scaling)."""
    if config.learning_rate is not None:
        return config.learning_rate
    return config.base_learning_rate * config.batch_size / BASE_BATCH_SIZE


def total_samples(config: Config, examples: int) -> int:
    """The images of the whole run; `examples` are those of one epoch."""
    return round(config.epochs * examples)


def total_steps(config: Config, examples: int, step: int = 0, samples: int = 0) -> int:
    """Steps of the whole run: those done, with whatever batch, and those for the images that are left."""
    return step + math.ceil(max(0, total_samples(config, examples) - samples) / config.batch_size)


def validations_due(config: Config, samples: int, examples: int) -> int:
    """How many validations belong to so many images: one after each epoch, and one after a last part of one."""
    whole_epochs, goal = int(config.epochs), total_samples(config, examples)
    return min(samples // examples, whole_epochs) + (samples >= goal > whole_epochs * examples)


def learning_rate(config: Config, samples: int, examples: int) -> float:
    """The rate of the step that starts after `samples` images; the first warm-up step is already above 0."""
    peak = peak_learning_rate(config)
    warmup_samples = config.warmup_epochs * examples
    if samples + config.batch_size < warmup_samples:
        return peak * (samples + config.batch_size) / warmup_samples
    if config.schedule == "steps":
        passed = sum(samples >= epoch * examples for epoch in config.learning_rate_step_epochs)
        return peak * config.learning_rate_factor**passed
    done = (samples - warmup_samples) / max(1, total_samples(config, examples) - warmup_samples)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, done))))
