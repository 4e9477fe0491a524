"""Training as it will be: by the production loop, in a scratch run, until enough has been measured."""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from trainer.config import Config
from trainer.data.record_writer import RecordWriter
from trainer.data.records import RecordFile, open_records
from trainer.errors import NonFiniteLossError
from trainer.learn.session import train
from trainer.run import Run
from trainer.spot.stop import StopRequest

# The first steps plan memory, choose algorithms and use up the batches that were prepared meanwhile.
WARM_UP_STEPS = 5
# A whole batch and a part of one: what validation needs of memory.
_VALIDATION_BATCHES = 1.5
_HARMLESS_LEARNING_RATE = 1e-6


def training_rates(config: Config, is_enough: Callable[[list[float]], bool]) -> list[float]:
    """images/s of the stretches that training reports, the warm-up left out. Its last act is a checkpoint."""
    return _rates(_scratch() | {"data_val": None}, config, is_enough)


def proof_rates(config: Config, is_enough: Callable[[list[float]], bool], epoch_images: int) -> list[float]:
    """The same with a short validation after every `epoch_images` images; ends after the first at the soonest."""
    validated = []
    with closing(open_records(config.data_train)) as records:
        most = min(len(records), config.num_examples or len(records))

    def is_proven(rates: list[float]) -> bool:
        return bool(validated) and is_enough(rates)

    short = {"num_examples": min(most, max(config.batch_size, epoch_images))}
    if config.data_val is None:
        return _rates(_scratch() | short, config, is_enough)
    short["data_val"] = _some_records(config.data_val, config.run_directory / "val.rec", config.batch_size)
    return _rates(_scratch() | short, config, is_proven, validated)


def _scratch() -> dict:
    """Endless, and with weights that stay finite; nothing is read or written outside the scratch run."""
    return {
        "epochs": 1e6, "warmup_epochs": 0.0, "base_learning_rate": None, "learning_rate": _HARMLESS_LEARNING_RATE,
        "display_steps": None, "init_from": None, "load_epoch": None, "model_prefix": None,
    }  # fmt: skip


def _rates(changes: dict, config: Config, is_enough: Callable[[list[float]], bool], validated=None) -> list[float]:
    stop, rates = StopRequest(), []

    def report(kind: str, **fields) -> None:
        if kind == "validation" and validated is not None:
            validated.append(fields["step"])
        if kind == "step" and fields["step"] > WARM_UP_STEPS:
            rates.append(fields["images_per_second"])
        if rates and is_enough(rates):
            stop.ask("signal")

    with suppress(NonFiniteLossError):
        train(config.model_copy(update=changes), Run(config.run_directory), report, stop)
    return rates


def _some_records(path: Path, target: Path, batch_size: int) -> Path:
    """The first records of a file, enough for one and a half batches, as a file of its own."""
    with closing(open_records(path)) as records, RecordWriter(target) as writer:
        for i in range(min(len(records), int(_VALIDATION_BATCHES * batch_size))):
            writer.write_framed(int(records.keys[i]), _framed(records, i))
        writer.publish()
    return target


def _framed(records: RecordFile, i: int) -> bytes:
    start = int(records.offsets[i])
    with open(records.path, "rb") as file:
        file.seek(start)
        return file.read(int(records.offsets[i + 1]) - start if i + 1 < len(records) else -1)
