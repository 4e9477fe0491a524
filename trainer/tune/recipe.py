"""What `tune` changes in a configuration: what it found, and what of the recipe must follow the batch."""

from trainer.config import Config
from trainer.tune.result import Tuning

# Goyal et al. 2017, section 2.2: large batches need a gradual warm-up, of 5 epochs in their 90.
_WARM_UP_EPOCHS = 5.0
_MOST_WARM_UP_SHARE = 0.1
_LARGE_TIMES = 2


def tuned_config(config: Config, found: Tuning) -> dict:
    """The keys of the configuration that `tune` sets, and their values."""
    measured = {"images_per_second": found.images_per_second, "roof_images_per_second": found.roof_images_per_second}
    batches = {"largest_batch": found.largest_batch, "sufficient_batch": found.sufficient_batch}
    table = {key: value for key, value in (measured | batches).items() if value is not None}
    keys = {"decode_threads": found.decode_threads, "tuning": table}
    if found.largest_batch is None:  # the batch was not looked for
        return keys
    return keys | {"batch_size": found.batch_size} | recipe(config, found.batch_size)


def recipe(config: Config, batch_size: int) -> dict[str, float]:
    """Keys of the configuration that change with another batch, and their new values.

    The learning rate grows in proportion (Goyal et al. 2017, section 2.1): `base_learning_rate` does so by itself, a
    literal `learning_rate` is changed here. A much larger batch gets a warm-up if it has none or a short one.
    """
    times = batch_size / config.batch_size
    changes = {}
    if config.learning_rate is not None and times != 1:
        changes["learning_rate"] = round(config.learning_rate * times, 10)
    least = round(min(_WARM_UP_EPOCHS, _MOST_WARM_UP_SHARE * config.epochs), 3)
    if times >= _LARGE_TIMES and config.warmup_epochs < least:
        changes["warmup_epochs"] = least
    return changes
