"""`predict`: which classes pictures show, by the model of a run."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainer.errors import DataError
from trainer.run import find


def predict(
    files: Annotated[list[Path], typer.Argument(help="Pictures: JPEG, PNG or what else OpenCV reads.")],
    run: Annotated[str, typer.Option(help="The run's name or directory.")],
    top: Annotated[int, typer.Option(help="How many classes to name.", min=1)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Name the likeliest classes of pictures. Exit code 66 when one cannot be read; the others are still named.

    Example: python -m trainer predict --run fashion-mnist shirt.jpg shoe.png
    """
    found = find(run)
    from trainer.learn.predict import predict as predict_files

    predictions = predict_files(found, files, top)
    if as_json:
        print(json.dumps([_as_dict(prediction) for prediction in predictions], indent=1, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_table(predictions)
    else:
        _print_lines(predictions)
    unreadable = [f"{one.file}: must be a picture, but cannot be read: {one.error}" for one in predictions if one.error]
    if unreadable:
        raise DataError("\n".join(unreadable))


def _as_dict(prediction) -> dict:
    if prediction.error:
        return {"file": str(prediction.file), "error": prediction.error}
    classes = [{"class": name, "probability": probability} for name, probability in prediction.top]
    return {"file": str(prediction.file), "classes": classes}


def _print_table(predictions: list) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("file", "class")
    table.add_column("probability", justify="right")
    for prediction in predictions:
        for rank, (name, probability) in enumerate(prediction.top):
            file = Text(str(prediction.file) if rank == 0 else "")
            table.add_row(file, Text(name), f"{probability:.1%}", end_section=rank == len(prediction.top) - 1)
    Console().print(table)


def _print_lines(predictions: list) -> None:
    """`FILE<tab>CLASS<tab>PROBABILITY`, one line a class."""
    for prediction in predictions:
        for name, probability in prediction.top:
            print(f"{prediction.file}\t{name}\t{probability:.4f}")
