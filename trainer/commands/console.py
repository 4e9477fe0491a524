"""Events of a training as a person reads them: a bar on a terminal, plain lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from trainer import interruption
from trainer.observe.words import duration, reason

# A log gets a line of progress at least this often, while events come more often.
LINE_SECONDS = 3.0


def describe(event: dict) -> str | None:
    """One line for an event; None for those that only machines read."""
    writer = _LINES.get(event["kind"])
    return writer(event) if writer else None


@contextmanager
def console_reporter() -> Iterator[Callable[..., None]]:
    """`report(kind, **fields)` that shows what happens on standard error, until the block ends."""
    if not sys.stderr.isatty():
        yield _line_reporter()
        return
    with Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True)) as progress:
        yield _bar_reporter(progress)


def _line_reporter() -> Callable[..., None]:
    shown_at = -LINE_SECONDS

    def report(kind: str, **fields) -> None:
        nonlocal shown_at
        if kind == "step" and time.monotonic() - shown_at < LINE_SECONDS:
            return
        line = describe({"kind": kind, **fields})
        if line:
            print(line, file=sys.stderr, flush=True)
            shown_at = time.monotonic()

    return report


def _bar_reporter(progress: Progress) -> Callable[..., None]:
    task = progress.add_task("starting", total=None)

    def report(kind: str, **fields) -> None:
        line = describe({"kind": kind, **fields})
        if kind == "step":
            progress.update(task, completed=fields["step"], total=fields["steps_total"], description=line)
        elif line:
            progress.console.print(line, highlight=False, markup=False)

    return report


def _start(event: dict) -> str:
    config, threads = event["config"], event["decode_threads_effective"]
    network = config["network"] + str(config.get("num_layers") or "")
    text = (
        f"training {network} on {', '.join(event['devices'])}: {event['records_train']:,} images, batch "
        f"{event['batch_size']}, {event['epochs']:g} epochs = {event['steps_total']:,} steps, learning rate up to "
        f"{event['learning_rate_peak']:g}, {threads} decode thread{'s' * (threads != 1)} "
        f"({event['decoder']}; batches take {event['input_memory_mb']:,} MB)"
    )
    if event["resumed_step"]:
        text = f"continuing at step {event['resumed_step']:,}; {text}"
    for line in event.get("rejected", []):
        text += f"\npassed over: {line}"
    for line in event.get("explained", []):
        text += f"\nchanged since the checkpoint: {line}"
    if event.get("init_from"):
        text += f"\nstarting from {event['init_from']['file']}: {event['init_from']['taken']} parameters taken"
    return text


def _step(event: dict) -> str:
    return (
        f"epoch {event['epoch']:.2f}/{event['epochs']:g}  step {event['step']:,}/{event['steps_total']:,}  "
        f"{event['images_per_second']:,.0f} images/s  loss {event['loss']:.3f}  "
        f"learning rate {event['learning_rate']:.4g}  {duration(event['seconds_left'])} left"
    )


def _validation(event: dict) -> str:
    accuracies = ", ".join(
        f"top-{key[3:]} {event[key]:.4f}" for key in sorted(event) if key.startswith("top") and key[3:].isdigit()
    )
    return (
        f"validation after epoch {event['epoch']:g}: {accuracies}, loss {event['loss']:.3f} on "
        f"{event['records']:,} images in {duration(event['seconds'])}"
    )


def _checkpoint(event: dict) -> str:
    return f"checkpoint of step {event['step']:,} is on disk ({event['bytes'] / 1e6:.1f} MB, {event['seconds']:.2f} s)"


def _checkpoint_failed(event: dict) -> str:
    again = "" if event["retry_seconds"] is None else f"; training goes on, next try in {event['retry_seconds']:g} s"
    return f"no checkpoint of step {event['step']:,}: {event['reason']}{again}"


def _export_failed(event: dict) -> str:
    return f"the model of epoch {event['epoch']} could not be written, training goes on: {event['reason']}"


def _stop(event: dict) -> str:
    text = f"stopped at step {event['step']:,}: {reason(event['reason'])}"
    if event.get("notice_to_durable_seconds") is not None:
        text += f" ({event['notice_to_durable_seconds']:.1f} s from the request to the checkpoint on disk)"
    if event.get("mirrored") is False:
        text += "; the second place does not have its checkpoint yet"
    return text


def _bad_record(event: dict) -> str:
    return f"bad record {event['key']} at offset {event['offset']}: {event['reason']}"


def _data_wait(event: dict) -> str:
    return f"no data for {duration(event['seconds'])}: {event['path']} is slow to read, or its disk hangs"


def _interrupted(event: dict) -> str:
    stack = "; its stack is in crash-before.txt" if event["reason"] == "crash" else ""
    return f"the training before ended without a word: {interruption.words(event)}{stack}"


def _notice(event: dict) -> str:
    return f"this machine will be taken away ({event['action']} at {event['time']}): stopping"


def _rebalance(event: dict) -> str:
    return "this machine may be taken away soon (rebalance recommendation): a checkpoint now"


def _imds(event: dict) -> str:
    if event["ok"]:
        return f"the metadata service answers again, after {event['errors']:,} errors; notices are seen"
    return f"the metadata service does not answer as it should, so a notice would not be seen: {event['reason']}"


def _mirror(event: dict) -> str | None:
    if not event["ok"]:
        return f"the mirror of checkpoints fails, training goes on: {event['reason']}"
    if event["checkpoint"] is None:
        return "the mirror of checkpoints can be reached again"
    took = f"{event['bytes'] / 1e6:.1f} MB, {event['seconds']:.2f} s"
    return f"checkpoint of step {event['step']:,} is in the second place ({took})"


def _mirror_wait(event: dict) -> str:
    return (
        f"waiting up to {duration(event['seconds'])} for the last checkpoint to reach the second place "
        "(a second Ctrl-C ends at once)"
    )


def _verdict(event: dict) -> str:
    return f"doctor: {event['text']}. {event['advice']}"


def _engine(event: dict) -> str:
    return event["limits"]


_LINES = {
    "start": _start, "step": _step, "validation": _validation, "checkpoint": _checkpoint,
    "checkpoint_failed": _checkpoint_failed, "export_failed": _export_failed, "stop": _stop,
    "bad_record": _bad_record, "data_wait": _data_wait, "engine": _engine, "interrupted": _interrupted,
    "mirror": _mirror, "mirror_wait": _mirror_wait, "notice": _notice, "rebalance": _rebalance, "imds": _imds,
    "verdict": _verdict,
}
