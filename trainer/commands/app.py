"""All commands in one place."""

from typing import Annotated

import typer

from trainer import __version__
from trainer.commands import bench
from trainer.commands.check import check
from trainer.commands.doctor import doctor
from trainer.commands.drill import drill
from trainer.commands.export import export
from trainer.commands.idle import idle
from trainer.commands.mirror import mirror
from trainer.commands.monitor import monitor
from trainer.commands.pack import pack
from trainer.commands.predict import predict
from trainer.commands.report import report
from trainer.commands.status import status
from trainer.commands.stop import stop
from trainer.commands.train import train
from trainer.commands.tune import tune
from trainer.commands.watch import watch

app = typer.Typer(
    name="python -m trainer", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    pack, check, train, stop, drill, predict, export, report, status, monitor, watch, mirror, idle, doctor, tune,
):
    app.command()(command)
app.add_typer(bench.app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train image classifiers with Apache MXNet, and look after the training."""
