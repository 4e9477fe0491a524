"""`train`: from a configuration file, or from the command line of MXNet's train_imagenet.py."""

import json
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trainer import crash, interruption, lease, systemd, volume
from trainer.checkpoint_files import directories
from trainer.commands import train_imagenet
from trainer.commands.console import console_reporter
from trainer.commands.report import print_result
from trainer.config import Config, build, load
from trainer.errors import ConfigError, DiskError, TrainerError
from trainer.files import write_whole
from trainer.observe import events
from trainer.observe.monitor import spawn_monitor
from trainer.observe.own_verdict import telling_verdict
from trainer.observe.report import summary_of, write_report
from trainer.run import RUNS, Run
from trainer.spot import imds, mirroring
from trainer.spot.stop import stop_on_signals


def train(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="The configuration, a TOML file.")] = None,
    check: Annotated[Path | None, typer.Option(help="Only check this configuration.")] = None,
    run: Annotated[str | None, typer.Option(help="Name of the run, with train_imagenet.py's options.")] = None,
    until_step: Annotated[
        int | None, typer.Option(min=0, help="Stop, with a checkpoint, when this step is done.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    with_monitor: Annotated[bool, typer.Option("--monitor/--no-monitor", help="Sample the machine meanwhile.")] = True,
    network: train_imagenet.Network = None,
    num_layers: train_imagenet.NumLayers = None,
    gpus: train_imagenet.Gpus = None,
    data_train: train_imagenet.DataTrain = None,
    data_val: train_imagenet.DataVal = None,
    batch_size: train_imagenet.BatchSize = None,
    data_nthreads: train_imagenet.DataThreads = None,
    image_shape: train_imagenet.ImageShape = None,
    num_classes: train_imagenet.NumClasses = None,
    num_examples: train_imagenet.NumExamples = None,
    num_epochs: train_imagenet.NumEpochs = None,
    lr: train_imagenet.Lr = None,
    lr_factor: train_imagenet.LrFactor = None,
    lr_step_epochs: train_imagenet.LrStepEpochs = None,
    optimizer: train_imagenet.Optimizer = None,
    mom: train_imagenet.Mom = None,
    wd: train_imagenet.Wd = None,
    dtype: train_imagenet.Dtype = None,
    kv_store: train_imagenet.KvStore = None,
    model_prefix: train_imagenet.ModelPrefix = None,
    load_epoch: train_imagenet.LoadEpoch = None,
    disp_batches: train_imagenet.DispBatches = None,
    top_k: train_imagenet.TopK = None,
    test_io: train_imagenet.TestIo = 0,
    benchmark: train_imagenet.Benchmark = 0,
) -> None:
    """Train a network; a run that was stopped continues where it was.

    \b
    Example: python -m trainer train --config trainer.toml
    Example: python -m trainer train --network resnet --num-layers 50 --gpus 0,1,2,3 \\
                 --data-train train.rec --data-val val.rec --batch-size 512 --data-nthreads 32
    """
    if check is not None:
        checked = load(check)
        _check_network(checked, str(check))
        _finished(Run(checked.run_directory), checked)
        print(f"{check}: valid")
        return
    options = {key: value for key, value in context.params.items() if key not in _OWN_OPTIONS}
    loaded = _load(config, run, options, needs_data=not benchmark)
    if test_io or benchmark:
        _measure(loaded, "input" if test_io else "network", as_json)
    else:
        _train(loaded, config, as_json, until_step, with_monitor)
        systemd.tell_end("finished, or stopped as asked")


_OWN_OPTIONS = ("config", "check", "run", "until_step", "as_json", "with_monitor", "test_io", "benchmark")


def _load(path: Path | None, run: str | None, options: dict, needs_data: bool) -> Config:
    given = [key for key, value in options.items() if value is not None]
    if path is not None:
        if given or run:
            names = ", ".join("--" + key.replace("_", "-") for key in [*given, *(["run"] if run else [])])
            raise ConfigError(f"command line: --config must stand without train_imagenet.py's options, got {names}")
        return load(path)
    values = train_imagenet.config_values(options)
    if needs_data and "data_train" not in values:
        raise ConfigError("command line: --data-train must be the path of a .rec file (or give --config), got nothing")
    values.setdefault("data_train", "synthetic.rec")  # the network alone is measured without data: nothing opens it
    values["run_directory"] = str(_run_directory(run, values))
    return build(values, source="command line", folder=Path.cwd())


def _run_directory(run: str | None, values: dict) -> Path:
    name = run or f"{values['network']}{values.get('num_layers', '')}"
    return Path(name).absolute() if "/" in name else RUNS / name


def _measure(config: Config, what: str, as_json: bool) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # nothing to save
        signal.signal(number, signal.SIG_DFL)
    from trainer.learn.devices import set_environment

    set_environment(config)
    from trainer.learn import measure

    result = (measure.input_alone if what == "input" else measure.network_alone)(config, _say)
    print(json.dumps(result) if as_json else f"{what} alone: {result['images_per_second']:,.1f} images/s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _train(config: Config, source: Path | None, as_json: bool, until_step: int | None, with_monitor: bool) -> None:
    run = Run(config.run_directory)
    if _nothing_left(run, config):
        print_result(run, _written_report(run), as_json)
        return
    stop = stop_on_signals()
    run.directory.mkdir(parents=True, exist_ok=True)
    # First of all, for `stop` finds a trainer by its lease, and MXNet takes seconds to load.
    with lease.hold(run, _say) as before, _config_kept(run, config, source):
        _check_network(config, str(source or "command line"))
        mirroring.fetch(run, config, _say, stop)
        if stop:
            _say("stopped before training began")
            return
        if not _nothing_left(run, config):
            if with_monitor:
                spawn_monitor(run)
            _train_held(run, config, stop, until_step, before)
        print_result(run, _report(run), as_json)


def _nothing_left(run: Run, config: Config) -> bool:
    """A finished run that was fetched lacks its model still, which training writes from its checkpoint."""
    return _finished(run, config) and (run.model_card.exists() or not directories(run))


def _report(run: Run) -> dict:
    """Writes the report. A disk that takes none is no failure of training: all that it did is saved."""
    try:
        return write_report(run)
    except DiskError as error:
        _say(f"{error}; once there is space: python -m trainer report --run {run.name}")
        return summary_of(run)


def _written_report(run: Run) -> dict:
    """A finished run's report.json; written again when the process was killed before it could do so."""
    try:
        summary = json.loads(run.report_json.read_text())
    except (OSError, ValueError):
        summary = {}
    return summary if summary.get("finished") and run.report_html.is_file() else _report(run)


def _train_held(run: Run, config: Config, stop, until_step: int | None, before: dict | None) -> None:
    log = events.event_writer(run.events)
    from trainer.learn.session import train as train_session

    try:
        with console_reporter() as show:
            report = systemd.telling_systemd(volume.marking_cold(_both(log, show), config.data_train), stop)
            report = telling_verdict(run, report)
            if interrupted := interruption.why(run, before):
                report("interrupted", **interrupted)
            with (
                crash.recording(run),
                imds.watching(config.imds_url, stop, report),
                mirroring.running(run, config, report) as mirror,
            ):
                still_ours = partial(lease.still_ours, run)
                train_session(config, run, report, stop, until_step=until_step, mirror=mirror, still_ours=still_ours)
    except TrainerError:
        with suppress(DiskError):  # a full disk must not hide what happened
            write_report(run)
        raise


def _check_network(config: Config, source: str) -> None:
    """Only MXNet knows which networks there are, which images they take and what this processor computes in."""
    from trainer.learn.devices import check_precision, set_environment

    set_environment(config)
    from trainer.learn.model import build_network

    try:
        build_network(config)
        check_precision(config)
    except ConfigError as error:
        raise ConfigError(*(f"{source}: {problem}" for problem in error.problems)) from error


def _both(log, show):
    """Any thread may report, until the `stop` event: nothing comes after it.

    A console that cannot be written (a log on a full disk) does not end training.
    """
    lock, over = threading.Lock(), False

    def report(kind: str, **fields) -> None:
        nonlocal over
        with lock:
            if over:
                return
            over = kind == "stop"
            log(kind, **fields)
            with suppress(OSError):
                show(kind, **fields)

    return report


def _finished(run: Run, config: Config) -> bool:
    """Whether training came to its end; ConfigError when it did with another configuration."""
    log = list(events.read(run.events))
    if not log or log[-1].get("kind") != "stop" or log[-1].get("reason") != "finished":
        return False
    # A disk that was full may have lost the start.
    before = next((event["config"] for event in reversed(log) if event.get("kind") == "start"), {})
    now = config.model_dump(mode="json")
    if changed := [key for key in now if key in before and now[key] != before[key]]:
        _refuse_changes(run, changed, before, now)
    return True


def _refuse_changes(run: Run, changed: list[str], before: dict, now: dict) -> None:
    """Those that the result does not depend on may change."""
    from trainer.learn.resume import ALWAYS_FREE

    refused = [f"{key} = {now[key]!r} (was {before[key]!r})" for key in changed if key not in ALWAYS_FREE]
    if refused:
        raise ConfigError(
            f"{run.directory}: the run is finished, so its configuration must stay as it is, got "
            f"{', '.join(refused)}; give the new one another run's name"
        )


@contextmanager
def _config_kept(run: Run, config: Config, source: Path | None):
    """The run directory explains itself: the configuration lies in it, with paths that hold from anywhere.

    One that turns out to be refused leaves the one before.
    """
    before = run.config.read_text() if run.config.is_file() else None
    text = config.to_toml()
    if text == before or (source is not None and source.resolve() == run.config.resolve()):
        yield
        return
    write_whole(run.config, text)
    try:
        yield
    except ConfigError:
        run.config.unlink() if before is None else write_whole(run.config, before)
        raise
