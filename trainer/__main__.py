"""`python -m trainer COMMAND`: wires the commands and turns errors into exit codes."""

import sys
import traceback
from typing import Annotated

import typer

from trainer import __version__
from trainer.commands import bench
from trainer.commands.check import check
from trainer.commands.doctor import doctor
from trainer.commands.export import export
from trainer.commands.monitor import monitor
from trainer.commands.pack import pack
from trainer.commands.predict import predict
from trainer.commands.report import report
from trainer.commands.stop import stop
from trainer.commands.train import train
from trainer.commands.tune import tune
from trainer.errors import DiskError, TrainerError

app = typer.Typer(
    name="python -m trainer", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (pack, check, train, stop, predict, export, report, monitor, doctor, tune):
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


def main() -> int:
    try:
        app()
    except TrainerError as error:
        return _fail(error)
    except OSError as error:
        return _fail(DiskError(f"{error.filename or 'the disk'}: {error.strerror}"))
    except Exception:
        traceback.print_exc()
        return TrainerError.exit_code
    return 0


def _fail(error: TrainerError) -> int:
    for line in str(error).splitlines():
        print(f"error: {line}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
