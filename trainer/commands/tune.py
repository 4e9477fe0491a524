"""`tune`: finds the largest batch and the fewest decode threads by measurement, on this host or on a model of one."""

import json
import shutil
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated

import typer

from trainer.commands.console import describe
from trainer.commands.tune_console import show_tuning, tuning_progress
from trainer.config import Config, load
from trainer.data.records import open_records
from trainer.errors import ConfigError
from trainer.files import write_whole
from trainer.observe import events
from trainer.run import PROJECT, Run
from trainer.spot import imds
from trainer.spot.stop import stop_on_signals
from trainer.tune import conditions, kept
from trainer.tune.host import beginning, this_host
from trainer.tune.host_prober import HostProber, StoppedError
from trainer.tune.known import Host
from trainer.tune.recipe import tuned_config
from trainer.tune.search import search
from trainer.tune.threads_only import tune_threads
from trainer.tune.twin import TwinProber, load_twin

KEPT = PROJECT / ".kit" / "tunings"


def tune(
    config: Annotated[Path | None, typer.Option(help="The configuration of a run that has not begun.")] = None,
    twin: Annotated[
        Path | None, typer.Option(help="Tune the model of a host in this TOML file (or a shipped one: p2.16xlarge).")
    ] = None,
    batch: Annotated[str, typer.Option(help="largest, or sufficient: the smallest that is as fast.")] = "largest",
    reserve: Annotated[float, typer.Option(help="Share of the devices' memory to leave free.")] = 0.0,
    budget_seconds: Annotated[float, typer.Option(help="The most time to take.")] = 600.0,
    threads_only: Annotated[bool, typer.Option("--threads-only", help="Keep the batch; a short look.")] = False,
    keep: Annotated[Path, typer.Option(help="Where tunings are kept for hosts of the same kind.")] = KEPT,
    again: Annotated[bool, typer.Option("--again", help="Measure even if a tuning is kept.")] = False,
    seed: Annotated[int, typer.Option(help="Of a twin's noise.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Find the roofs, the largest batch that fits and the fewest decode threads that feed it, by measurement.

    The result goes to tuning.json in the run's directory; the same is not measured twice on hosts of one kind.

    \b
    Example: python -m trainer tune --config trainer.toml
    Example: python -m trainer tune --twin p2.16xlarge
    """
    _check_options(config, twin, batch, reserve, budget_seconds)
    if twin is not None:
        found = _tune_twin(twin, batch, reserve, budget_seconds, seed)
    else:
        found = _tune_host(load(config), batch, reserve, budget_seconds, threads_only, keep, again)
    if found is None:
        print("stopped: nothing was written", file=sys.stderr)
    elif as_json:
        print(json.dumps(found))
    else:
        show_tuning(found)


def _check_options(
    config: Path | None, twin: Path | None, batch: str, reserve: float, budget_seconds: float
) -> None:
    problems = []
    if (config is None) == (twin is None):
        problems.append(f"command line: either --config or --twin must be given, got {'both' if config else 'neither'}")
    if batch not in ("largest", "sufficient"):
        problems.append(f'command line: --batch must be "largest" or "sufficient", got "{batch}"')
    if not 0 <= reserve < 1:
        problems.append(f"command line: --reserve must be a share from 0 to below 1, got {reserve:g}")
    if not 0 < budget_seconds < float("inf"):
        problems.append(f"command line: --budget-seconds must be a number above 0, got {budget_seconds:g}")
    if problems:
        raise ConfigError(*problems)


def _tune_twin(path: Path, batch: str, reserve: float, budget_seconds: float, seed: int) -> dict:
    twin = load_twin(path)
    prober = TwinProber(twin, seed, budget_seconds)
    host = Host(devices=twin.gpus, vcpus=twin.vcpus, memory_mb=twin.gpu_memory_mb * (1 - reserve))
    with tuning_progress(prober, budget_seconds) as told:
        found = search(host, prober, batch, told)
    return found.as_json() | {"simulated_seconds": round(prober.spent_seconds, 1)}


def _tune_host(
    config: Config, batch: str, reserve: float, budget_seconds: float, threads_only: bool, keep: Path, again: bool
) -> dict | None:
    """None when asked to stop."""
    run = Run(config.run_directory)
    _refuse_begun(run)
    key = kept.key_of(config, {"what": "threads" if threads_only else batch, "reserve": reserve})
    known = None if again else kept.find(keep, key)
    if known is not None:
        found = known | {"kept": True}
    else:
        found = _measure(config, run, batch, reserve, budget_seconds, threads_only)
        if found is None:
            return None
        if not found["warnings"]:
            kept.keep(keep, key, found)
    run.directory.mkdir(parents=True, exist_ok=True)
    write_whole(run.tuning, json.dumps(found | {"host_kind": key["host"]}, indent=1) + "\n")
    return found


def _refuse_begun(run: Run) -> None:
    """Other settings in the middle of a run would not be its own any more."""
    begun = any(event.get("kind") == "start" for event in events.read(run.events))
    if begun or run.latest.exists():
        raise ConfigError(f"--config must be of a run that has not begun, got {run.directory}; give another run's name")


def _measure(
    config: Config, run: Run, batch: str, reserve: float, budget_seconds: float, threads_only: bool
) -> dict | None:
    stop, began = stop_on_signals(), time.monotonic()
    was_there = run.directory.exists()
    prober = HostProber(config, budget_seconds, lambda: bool(stop), run.directory / ".tuning")
    try:
        with imds.watching(config.imds_url, stop, _say):
            with closing(open_records(config.data_train)) as records:
                examples = min(len(records), config.num_examples or len(records))
            conditions.wait_until_warm(config.data_train, _print, stop)
            warnings = conditions.warnings(config.data_train)
            for warning in warnings.values():
                _print(f"warning: {warning}")
            with tuning_progress(prober, budget_seconds) as told:
                if threads_only:
                    found = tune_threads(beginning(config), prober, told)
                else:
                    found = search(this_host(config, prober, reserve, examples), prober, batch, told)
    except StoppedError:
        return None
    finally:
        shutil.rmtree(prober.scratch, ignore_errors=True)
        if not was_there:
            with suppress(OSError):
                run.directory.rmdir()
    return found.as_json() | {
        "config": tuned_config(config, found), "seconds": round(time.monotonic() - began, 1),
        "warnings": warnings, "kept": False, "host": kept.host_kind(),
    }  # fmt: skip


def _say(kind: str, **fields) -> None:
    """What the watch for notices reports."""
    if line := describe({"kind": kind, **fields}):
        _print(line)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
