"""`bench`: how fast parts of the kit are on this machine."""

import json
from pathlib import Path
from typing import Annotated

import typer

from trainer.commands.progress import progress
from trainer.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Measure how fast parts of the kit are on this machine.")


@app.callback()
def bench() -> None:
    """Measure how fast parts of the kit are on this machine."""


@app.command()
def pipeline(
    data: Annotated[Path, typer.Option(help="The .rec file, its .idx beside it.")],
    threads: Annotated[str, typer.Option(help="Numbers of decode threads, with commas between.")] = "1,2",
    engines: Annotated[str, typer.Option(help="Of kit, kit-wheel, mxnet, decode, commas between.")] = "kit,mxnet",
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures a batch.")] = 64,
    size: Annotated[int, typer.Option(min=1, help="Height and width of the crops in pixels.")] = 224,
    dtype: Annotated[str, typer.Option(help="float32 or uint8, of the kit's batches.")] = "float32",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each engine; the median counts.")] = 3,
    seconds: Annotated[float, typer.Option(min=0.01, help="Seconds of one turn.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Decode, crop, flip and normalise pictures without a network, the engines in turn.

    kit-wheel is the kit without its crop decoder; decode is plain decoding of whole JPEGs and nothing else.

    Example: python -m trainer bench pipeline --data packed/train.rec --threads 1,2 --engines kit,mxnet
    """
    from trainer.data import measure

    names = _chosen("--engines", engines, measure.ENGINES)
    counts = _counts(threads)
    _chosen("--dtype", dtype, ("float32", "uint8"))
    work = measure.Work(batch_size=batch_size, size=size, dtype=dtype)
    with progress("measuring", total=rounds * len(names) * len(counts), unit="turns") as advance:
        rows = measure.measure(data, names, counts, rounds=rounds, seconds=seconds, work=work, advance=advance)
    if as_json:
        print(json.dumps(rows))
    else:
        _show(rows)


def _chosen(option: str, text: str, known: tuple[str, ...]) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(known):
        raise ConfigError(f"{option} must be of {', '.join(known)}, got {text}")
    return names


def _counts(text: str) -> list[int]:
    counts = text.split(",")
    if not all(count.isdecimal() and int(count) > 0 for count in counts):
        raise ConfigError(f"--threads must be whole numbers above 0 with commas between, got {text}")
    return [int(count) for count in counts]


def _show(rows: list[dict]) -> None:
    print(f"{'engine':<10} {'threads':>7} {'images/s':>9} {'CPU ms/image':>13} {'of linear':>10}")
    for row in rows:
        print(
            f"{row['engine']:<10} {row['threads']:>7} {row['images_per_second']:>9,.0f} "
            f"{row['cpu_ms_per_image']:>13.3f} {row['share_of_linear']:>10.0%}"
        )
