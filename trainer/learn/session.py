"""One process's part of a run: opens the data, builds or restores the network, trains, exports the model."""

import platform
import socket
import time
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.contrib import amp

from trainer import __version__
from trainer.config import Config
from trainer.data.labels import check_labels
from trainer.data.loader import TrainLoader
from trainer.data.manifest import read_manifest
from trainer.data.mxnet_engine import MxnetLoader
from trainer.data.records import RecordFile, open_records
from trainer.errors import ConfigError, DataError, NonFiniteLossError
from trainer.host_kind import host_kind
from trainer.learn import checkpoint, resume
from trainer.learn.checkpoint import Progress, Whole
from trainer.learn.devices import contexts
from trainer.learn.export import export_model
from trainer.learn.loop import Loop
from trainer.learn.model import build_network, initialise_network, set_weight_decay
from trainer.learn.saver import Saver
from trainer.learn.schedule import peak_learning_rate
from trainer.learn.step import Stepper
from trainer.learn.writer import Writer
from trainer.run import Run

# Before the machine is gone; and when nobody says that it will be.
MIRROR_MARGIN_SECONDS = 10.0
MIRROR_WAIT_SECONDS = 60.0


def train(
    config: Config, run: Run, report, stop, *, until_step: int | None = None, mirror=None, still_ours=lambda: True
) -> str:
    """Trains from the start or from the newest checkpoint; returns why it ended: "finished" or who asked to stop.

    until_step: asks itself to stop when that step is done. mirror: the second place, with
    `wait_for(checkpoint_name, deadline_monotonic) -> bool`. still_ours: whether this process may still write the run.
    Errors: DataError, ConfigError, DeviceError, DiskError, NonFiniteLossError.
    """
    with ExitStack() as opened:
        records = opened.enter_context(closing(open_checked(config.data_train, config)))
        validation = config.data_val and opened.enter_context(closing(open_checked(config.data_val, config)))
        loader = opened.enter_context(closing(train_loader(records, config, report)))
        checkpoint.tidy(run)
        whole, rejected = _continue_from(run)
        saved = next(iter(whole), None)
        described = resume.description(config, records, validation or None, loader.decoder)
        changed = resume.changes(saved, whole[saved], described) if saved else {}
        stepper, taken = make_stepper(config, saved)
        progress = _beginning(config, loader)
        if saved:
            with suppress(OSError):  # a full disk; LATEST is for those who look
                checkpoint.name_latest(run, saved)
            checkpoint.load(saved, stepper.network, stepper.trainer)
            progress = _progress(whole[saved], described)
        saver = Saver(Writer(run, config.checkpoints_kept, whole, still_ours), config, report)
        loop = Loop(config, run, stepper, loader, validation, report, stop, progress, saver, described, until_step)
        report(
            "start", **_start_fields(loop, records), changed=changed, explained=resume.explained(changed, config),
            init_from=taken, rejected=rejected,
        )
        return _run(loop, mirror)


def _run(loop: Loop, mirror) -> str:
    try:
        loop.fit()
        reason = "finished" if loop.finished else loop.stop.reason
        if loop.finished:
            export_model(
                loop.stepper.network, loop.run, loop.config, classes=classes_of(loop.config), top1=loop.progress.top1
            )
        mirrored = mirror and mirror.wait_for(loop.saver.newest.name, _mirror_deadline(loop.stop))
    except BaseException as error:
        _report_stop(loop, "non_finite_loss" if isinstance(error, NonFiniteLossError) else "error")
        raise
    _report_stop(loop, reason, mirrored=mirrored, **_notice_times(loop))
    return reason


def _mirror_deadline(stop) -> float:
    """time.monotonic() at which to wait for the second place no longer."""
    if stop.deadline is not None:
        return stop.deadline - MIRROR_MARGIN_SECONDS
    return time.monotonic() + MIRROR_WAIT_SECONDS


def _notice_times(loop: Loop) -> dict:
    """From the moment when somebody asked to the checkpoint on disk."""
    asked = loop.stop.asked_at
    return {"notice_to_durable_seconds": round(loop.durable_at - asked, 3)} if asked is not None else {}


def _continue_from(run: Run) -> tuple[Whole, list[str]]:
    """The whole checkpoints, and what is wrong with the others; DataError when there are others only."""
    whole, rejected = checkpoint.survey(run)
    if rejected and not whole:
        advice = f"{run.checkpoints}: must hold a whole checkpoint; remove it to train from the start"
        raise DataError("\n".join([*rejected, advice]))
    return whole, rejected


def _progress(state: dict, described: dict) -> Progress:
    """The best so far counts on the same validation data only."""
    progress = checkpoint.progress_of(state)
    if not checkpoint.same_data(state["data"]["val"], described["data"]["val"]):
        progress.top1 = progress.validated_step = progress.best_top1 = None
    return progress


def open_checked(path, config: Config) -> RecordFile:
    """A record file whose labels fit the configuration."""
    records = open_records(path)
    check_labels(records, config.label_width, config.num_classes)
    return records


def train_loader(records: RecordFile, config: Config, report) -> TrainLoader | MxnetLoader:
    """ConfigError when a batch is larger than the epoch."""
    examples = min(len(records), config.num_examples or len(records))
    if config.batch_size > examples:
        raise ConfigError(
            f"batch_size must be at most the images of an epoch ({examples} in {config.data_train}), "
            f"got {config.batch_size}"
        )
    engine = MxnetLoader
    if config.input_engine == "kit":
        engine = partial(TrainLoader, bad_record_share=config.bad_record_share)
    return engine(
        records, batch_size=config.batch_size, image_shape=config.image_shape, mean=config.mean, std=config.std,
        augmentation=config.augmentation, seed=config.seed, threads=config.decode_threads,
        num_examples=config.num_examples, report=report,
    )


def make_stepper(config: Config, saved: Path | None = None) -> tuple[Stepper, dict | None]:
    """A network ready to train, and what `init_from` gave to it; a checkpoint needs neither file nor luck."""
    if saved:
        config = config.model_copy(update={"init_from": None, "load_epoch": None})
    if config.precision != "float32":
        amp.init(target_dtype=config.precision)
    mx.random.seed(config.seed)
    np.random.seed(config.seed)  # noqa: NPY002 (MXNet's initialisers draw from it)
    network = build_network(config)
    devices = contexts(config)
    taken = initialise_network(network, config, devices)
    set_weight_decay(network)
    network.hybridize(static_alloc=True)  # static_shape loses batch norm's first update on two devices
    return Stepper(network, config, devices), taken


def classes_of(config: Config) -> list[str] | None:
    """The class names in the training set's manifest; None when it has none."""
    manifest = read_manifest(config.data_train)
    return manifest and manifest.get("classes")


def _beginning(config: Config, loader: TrainLoader) -> Progress:
    """Nothing done yet, or the epochs that `load_epoch` stands for."""
    epoch = config.load_epoch or 0
    samples = epoch * loader.examples
    return Progress(step=samples // config.batch_size, samples=samples, validated_epochs=epoch)


def _start_fields(loop: Loop, records: RecordFile) -> dict:
    config, progress = loop.config, loop.progress
    return {
        "version": __version__, "code": loop.described["versions"]["code"], "mxnet": mx.__version__,
        "python": platform.python_version(), "numpy": np.__version__, "host": socket.gethostname(),
        "host_kind": host_kind(),
        "run": loop.run.name, "config": config.model_dump(mode="json"), "resumed_step": progress.step,
        "resumed_samples": progress.samples, "examples": loop.examples, "steps_total": loop.steps_total,
        "epochs": config.epochs, "records_train": len(records),
        "records_val": len(loop.validation_records) if loop.validation_records else 0,
        "devices": list(config.devices), "decode_threads_effective": loop.loader.threads,
        "decoder": loop.loader.decoder, "input_memory_mb": round(loop.loader.memory_bytes / 1e6),
        "classes": classes_of(config), "learning_rate_peak": peak_learning_rate(config),
        "batch_size": config.batch_size,
    }


def _report_stop(loop: Loop, reason: str, **fields) -> None:
    progress = loop.progress
    loop.report("stop", reason=reason, step=progress.step, samples=progress.samples, **loop.times(), **fields)
