"""The learning rate as a function of the images seen."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import build
from trainer.learn.schedule import learning_rate, peak_learning_rate, total_samples, total_steps, validations_due

EXAMPLES = 1000


def recipe(**changes):
    values = {
        "run_directory": "run", "data_train": "t.rec", "num_classes": 10, "num_layers": 18,
        "epochs": 10, "batch_size": 100,
        "base_learning_rate": 0.256, "warmup_epochs": 2,
    } | changes
    return build({key: value for key, value in values.items() if value is not None}, source="test", folder=Path("/"))


def test_the_rate_follows_the_batch():
    assert peak_learning_rate(recipe()) == pytest.approx(0.1)
    assert peak_learning_rate(recipe(batch_size=200)) == pytest.approx(0.2)
    assert peak_learning_rate(recipe(base_learning_rate=None, learning_rate=0.5)) == 0.5


@pytest.mark.parametrize(
    ("epoch", "rate"), [(0, 0.005), (0.9, 0.05), (1.9, 0.1), (2, 0.1), (6, 0.05), (10, 0.0), (12, 0.0)]
)
def test_warm_up_then_cosine(epoch, rate):
    assert learning_rate(recipe(), round(epoch * EXAMPLES), EXAMPLES) == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize(("epoch", "rate"), [(2, 0.1), (2.9, 0.1), (3, 0.05), (5, 0.025), (9.9, 0.025)])
def test_steps_multiply_by_the_factor(epoch, rate):
    config = recipe(schedule="steps", learning_rate_factor=0.5, learning_rate_step_epochs=[3, 5])
    assert learning_rate(config, round(epoch * EXAMPLES), EXAMPLES) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("epochs", "batch", "samples", "steps"), [(10, 100, 10_000, 100), (0.5, 100, 500, 5), (1, 64, 1000, 16)]
)
def test_the_last_step_may_reach_past_the_end(epochs, batch, samples, steps):
    config = recipe(epochs=epochs, batch_size=batch, warmup_epochs=0)
    assert (total_samples(config, EXAMPLES), total_steps(config, EXAMPLES)) == (samples, steps)


@pytest.mark.parametrize(
    ("epochs", "samples", "due"),
    [(2, 0, 0), (2, 999, 0), (2, 1000, 1), (2, 2040, 2), (2, 3500, 2), (1.25, 1249, 1), (1.25, 1250, 2), (0.5, 500, 1)],
)
def test_a_validation_belongs_to_each_epoch_and_to_a_last_part_of_one(epochs, samples, due):
    assert validations_due(recipe(epochs=epochs, warmup_epochs=0), samples, EXAMPLES) == due


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 30))
def test_another_batch_on_the_way_leaves_what_is_left(before, after, steps):
    samples = steps * before
    total = total_steps(recipe(batch_size=after), EXAMPLES, steps, samples)
    left = 10 * EXAMPLES - samples
    assert (total - steps) * after >= left > (total - steps - 1) * after or (left <= 0 and total == steps)


@given(samples=st.integers(0, 20_000), batch=st.integers(1, 1000), warmup=st.floats(0, 9), steps=st.booleans())
def test_the_rate_stays_between_zero_and_its_peak(samples, batch, warmup, steps):
    config = recipe(batch_size=batch, warmup_epochs=warmup, schedule="steps" if steps else "cosine")
    assert 0 <= learning_rate(config, samples, EXAMPLES) <= peak_learning_rate(config) * (1 + 1e-12)


@given(batch=st.integers(1, 1000))
def test_the_first_step_of_a_warm_up_learns_something(batch):
    assert learning_rate(recipe(batch_size=batch), 0, EXAMPLES) > 0


@given(st.floats(0.001, 5), st.integers(1, 3000), st.integers(0, 5000))
def test_a_whole_run_has_a_validation_for_each_epoch_and_one_for_a_part_that_has_images(epochs, examples, more):
    config = recipe(epochs=epochs, warmup_epochs=0)
    goal = total_samples(config, examples)
    assert validations_due(config, goal + more, examples) == -(-goal // examples)
