"""`drill`: rehearses losing the machine on a copy of the user's own run."""

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trainer import lease
from trainer.config import Config, load
from trainer.errors import ConfigError, DiskError, TrainerError
from trainer.observe import events
from trainer.observe.words import duration
from trainer.run import Run, find
from trainer.spot import rehearsal

# Of each of the two copies: as many checkpoints as it keeps, the best one and the one being written.
_SPARE_CHECKPOINTS = 2


def drill(
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    notice: Annotated[bool, typer.Option("--notice", help="Give the notice that a spot machine gets.")] = False,
    kill: Annotated[int, typer.Option(help="How often to kill the trainer at a random moment.", min=0)] = 0,
    steps: Annotated[int, typer.Option(help="How many steps to train after the last interruption.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Rehearse losing the machine: train a copy of a run, interrupt it, let it continue, and compare the weights.

    The run itself stays as it is. The copies start from its newest checkpoint (from the beginning when it is finished),
    save every 3 s and have no mirror; they are removed at the end. Exit code 0 when the interrupted copy came to the
    same weights, bit for bit, as one that was never interrupted.

    \b
    Example: python -m trainer drill --run fashion-mnist --notice
    Example: python -m trainer drill --run fashion-mnist --kill 3 --json
    """
    if not notice and not kill:
        raise ConfigError("command line: --notice or --kill must be given, got neither")
    found = find(run)
    config = load(found.config)
    if lease.holder(found):
        raise ConfigError(f"--run must not be in training during a drill, got {found.name}: stop it first")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with _folder(found) as folder:
        result = _rehearse(found, config, folder, ["notice"] * notice + ["kill"] * kill, steps)
    print(json.dumps(result) if as_json else _text(result))
    if not result["same"]:
        raise TrainerError(_why_different(result))


def _rehearse(run: Run, config: Config, folder: Path, kinds: list[str], steps: int) -> dict:
    from trainer.learn import checkpoint

    for start in dict.fromkeys([checkpoint.newest(run), None]):
        try:
            return _compare(_Drill(run, config, _kept(start, folder, config), folder), kinds, steps)
        except rehearsal.TooShortError:
            _say("  the training was over before it could be interrupted")
    raise ConfigError(f"--run must train for at least some 10 s more to be interrupted, got {run.name}")


@dataclass(frozen=True)
class _Drill:
    """start: a checkpoint of the run, kept in `folder`; None for the beginning."""

    run: Run
    config: Config
    start: Path | None
    folder: Path

    def copy(self, name: str) -> rehearsal.Copy:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return rehearsal.copy_of(self.config, self.start, self.folder / name, _say)

    def uninterrupted(self, goal: int) -> dict[str, str]:
        _say(f"training another copy to step {goal:,} without interruption")
        copy = self.copy("uninterrupted")
        copy.train_until(goal)
        return copy.weights()


def _compare(drill: _Drill, kinds: list[str], steps: int) -> dict:
    """The result as JSON. interruptions, for each: kind, t (unix seconds), step (the last one done then), resumed_step,
    images_twice (trained again), notice_to_durable_seconds (from the notice to the checkpoint on disk),
    seconds_to_next_step and seconds_lost (from the end of the trainer to the next step, and to the first step that had
    not been done before; the time to get a new machine comes on top). repeatable: whether training without interruption
    comes to the same weights twice, which devices that sum in any order do not.
    """
    start = drill.start and drill.start.name
    _say(f"{drill.run.name}: training a copy from {start or 'the beginning'}, to be interrupted")
    copy = drill.copy("interrupted")
    for number, kind in enumerate(kinds, 1):
        _say(f"interruption {number} of {len(kinds)}: {kind}")
        copy.give_notice() if kind == "notice" else copy.kill()
    goal = max(interruption["step"] for interruption in copy.interruptions) + steps
    _say(f"continuing to step {goal:,}")
    copy.train_until(goal)
    others = drill.uninterrupted(goal)
    different = [name for name, digest in copy.weights().items() if digest != others[name]]
    return {
        "run": drill.run.name, "from": start, "to_step": goal, "same": not different, "different": different,
        "repeatable": not different or drill.uninterrupted(goal) == others, "interruptions": copy.outcomes(),
        "copies_save_every_seconds": rehearsal.CHECKPOINT_SECONDS,
        "run_saves_every_seconds": _interval_seconds(drill.run, drill.config),
    }  # fmt: skip


def _interval_seconds(run: Run, config: Config) -> float | None:
    """What the run's own checkpoints say; None when it has none and its interval is "auto"."""
    known = [event.get("interval_seconds") for event in events.read(run.events) if event.get("kind") == "checkpoint"]
    return config.checkpoint_interval if config.checkpoint_interval != "auto" else next(reversed(known), None)


@contextmanager
def _folder(run: Run) -> Iterator[Path]:
    """Beside the run, on its disk. What a killed drill left is removed."""
    folder = run.directory.with_name(f".{run.name}.drill")
    folder.mkdir(exist_ok=True)
    with lease.hold(Run(folder)):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _kept(start: Path | None, folder: Path, config: Config) -> Path | None:
    """A checkpoint of the drill's own: the run's may go as soon as somebody trains it again. DiskError."""
    if start is None:
        return None
    size = sum(path.stat().st_size for path in start.iterdir())
    needed = (1 + 2 * (config.checkpoints_kept + _SPARE_CHECKPOINTS)) * size
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskError(f"{folder}: a drill needs {needed / 1e6:,.0f} MB of space, got {free / 1e6:,.0f} MB")
    kept = folder / "start" / start.name
    shutil.rmtree(kept.parent, ignore_errors=True)
    return shutil.copytree(start, kept)


def _text(result: dict) -> str:
    lines = []
    for one in result["interruptions"]:
        line = f"{one['kind']} after step {one['step']:,}: continued at step {one['resumed_step']:,}, "
        line += f"{one['images_twice']:,} images trained twice, next step {duration(one['seconds_to_next_step'])} "
        line += f"after the end, {duration(one['seconds_lost'])} lost"
        if "notice_to_durable_seconds" in one:
            line += f"; checkpoint on disk {duration(one['notice_to_durable_seconds'])} after the notice"
        lines.append(line)
    if (own := result["run_saves_every_seconds"]) is not None:
        lines.append(
            f"the copies saved every {duration(result['copies_save_every_seconds'])}, the run saves every "
            f"{duration(own)}: a kill costs it up to that much more"
        )
    if result["same"]:
        lines.append(f"the weights after step {result['to_step']:,} are the same, bit for bit, as without interruption")
    return "\n".join(lines)


def _why_different(result: dict) -> str:
    if not result["repeatable"]:
        return (
            f"{result['run']}: two trainings without interruption differ as well (these devices do not sum in a fixed "
            f"order), so nothing can be said about the interrupted one"
        )
    files = ", ".join(result["different"])
    return f"{result['run']}: the interrupted training came to other weights than the uninterrupted one: {files} differ"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
