"""`watch`: how a run is doing, live in a terminal."""

import json
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from trainer.commands.watch_screen import facts, one_line, screen
from trainer.errors import ConfigError
from trainer.observe.live import LiveView
from trainer.observe.own_verdict import LAST_SAMPLES
from trainer.observe.remote import NoConnectionError, is_address, messages
from trainer.run import find

PERIOD_SECONDS = 1.0
# In a log: a line at least this often.
LINE_SECONDS = 10.0


def watch(
    run: Annotated[str, typer.Option(help="The run's name or directory, or the address of its monitor (http://...).")],
    once: Annotated[bool, typer.Option("--once", help="Print the state once.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the messages of the page, as JSON.")] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="With an address: the monitor's token.", show_default=False)
    ] = None,
) -> None:
    """Show how a run is doing: progress, speed against the roof, GPUs, cost. q or Ctrl-C ends it, training goes on.

    Where the output is no terminal it is a line now and then, until the run ends.

    \b
    Example: python -m trainer watch --run fashion-mnist
    Example: python -m trainer watch --run http://127.0.0.1:8470 --once --json
    """
    if token_file and not is_address(run):
        raise ConfigError(f"--token-file must come with the address of a monitor as --run, got {run!r}")
    seen = _remote(run, token_file, patient=not once) if is_address(run) else _local(run)
    name = run if is_address(run) else find(run).name
    try:
        if once or as_json or not sys.stdout.isatty():
            _print(name, seen, once, as_json)
        else:
            _show(name, seen)
    except KeyboardInterrupt:
        return


def _local(run: str) -> Iterator[dict]:
    view = LiveView(find(run), newest_samples=LAST_SAMPLES)
    while True:
        message = view.now()
        yield message
        if message["loaded"] == 1:
            time.sleep(PERIOD_SECONDS)


def _remote(address: str, token_file: Path | None, patient: bool) -> Iterator[dict]:
    """A connection that was there once is tried again for ever; {"lost": why} tells that there is none."""
    while True:
        try:
            for message in messages(address, token_file):
                patient = True
                yield message
        except NoConnectionError as error:
            if not patient:
                what = f"--run must be the address of a monitor that answers, got {address}: {error}"
                raise ConfigError(what) from None
            yield {"lost": str(error)}
        time.sleep(2 * PERIOD_SECONDS)


def _print(name: str, seen: Iterator[dict], once: bool, as_json: bool) -> None:
    due, state = 0.0, None
    for message in seen:
        if "lost" in message:
            print(f"{name}: no connection: {message['lost']}", file=sys.stderr, flush=True)
            continue
        if message["loaded"] < 1:
            continue
        if once or as_json or time.monotonic() >= due or message["state"] != state:
            print(_text(name, message, once, as_json), flush=True)
            due, state = time.monotonic() + LINE_SECONDS, message["state"]
        if once or message["state"] != "running":
            return


def _text(name: str, message: dict, once: bool, as_json: bool) -> str:
    if as_json:
        return json.dumps(message)
    if once:
        return "\n".join(f"{what}: {value}" for what, value in facts(name, message).items())
    return one_line(name, message)


def _show(name: str, seen: Iterator[dict]) -> None:
    """The whole terminal, until q."""
    last: dict = {}
    console = Console()
    with _keys() as asked_to_end, Live(console=console, screen=True, auto_refresh=False) as live:
        for message in seen:
            last = last | {"lost": None} | message
            live.update(screen(name, last, console.width, console.height), refresh=True)
            if asked_to_end():
                return


@contextmanager
def _keys():
    """Gives a function: whether q was pressed. Keys need no Enter meanwhile, and are not shown."""
    if not sys.stdin.isatty():
        yield lambda: False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield lambda: bool(select.select([sys.stdin], [], [], 0)[0]) and sys.stdin.read(1) in "qQ"
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
