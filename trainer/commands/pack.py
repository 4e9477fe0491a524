"""`pack`: a folder of pictures, ImageNet's tar files, or the IDX files of MNIST and its kin, to RecordIO."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from trainer.commands.progress import progress
from trainer.data.data_set import Options
from trainer.data.pack import Packed
from trainer.data.pack import pack as pack_data_set
from trainer.errors import ConfigError, DataError


def pack(
    source: Annotated[
        Path, typer.Argument(help="A folder of class folders, of train/ and val/, of ImageNet's tars or MNIST's files.")
    ],
    out_dir: Annotated[Path, typer.Argument(help="Where train.rec, val.rec and what belongs to them go.")],
    resize: Annotated[int | None, typer.Option(help="Scale larger pictures to this short side, in pixels.")] = None,
    quality: Annotated[int, typer.Option(help="JPEG quality of scaled pictures, 1 to 100.")] = 95,
    val_share: Annotated[float, typer.Option(help="Share of each class for validation, without a val/ folder.")] = 0.1,
    threads: Annotated[int, typer.Option(help="Threads that read and encode.")] = os.cpu_count() or 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Pack pictures into RecordIO files. Does nothing when they were packed from the same files before.

    Exit code 66 when pictures had to be left out: they are listed, the others are packed.

    Example: python -m trainer pack photos/ packed/ --resize 256
    """
    _check(source, out_dir, resize, quality, val_share, threads)
    begun = time.monotonic()
    options = Options(resize, quality, val_share)
    packed = pack_data_set(source, out_dir, options, threads, _progress)
    result = _result(packed, out_dir, time.monotonic() - begun)
    print(json.dumps(result) if as_json else _text(result))
    for bad in result["rejected"]:
        print(f"left out: {bad['file']}: {bad['reason']}", file=sys.stderr)
    if result["rejected"]:
        raise typer.Exit(DataError.exit_code)


@contextmanager
def _progress(total_bytes: int) -> Iterator[Callable[[int], None]]:
    with progress("packing", total=total_bytes / 1e6, unit="MB") as advance:
        yield lambda done: advance(done / 1e6)


def _check(source: Path, out_dir: Path, resize: int | None, quality: int, val_share: float, threads: int) -> None:
    inside = source.resolve() in (out_dir.resolve(), *out_dir.resolve().parents)
    rules = (
        (not source.is_dir(), f"SOURCE must be a folder, got {source}"),
        (inside, f"OUT_DIR must be outside of SOURCE, got {out_dir}"),
        (resize is not None and resize < 1, f"--resize must be a whole number above 0, got {resize}"),
        (not 1 <= quality <= 100, f"--quality must be a whole number from 1 to 100, got {quality}"),
        (not 0 < val_share < 1, f"--val-share must be a number above 0, below 1, got {val_share}"),
        (threads < 1, f"--threads must be a whole number above 0, got {threads}"),
    )
    broken = [rule for is_broken, rule in rules if is_broken]
    if broken:
        raise ConfigError(*broken)


def _result(packed: Packed, out_dir: Path, seconds: float) -> dict:
    splits = {"train": packed.train, "val": packed.val}
    return {
        "changed": packed.changed,
        **{
            name: {"path": str(out_dir.resolve() / f"{name}.rec"), "records": manifest["records"]}
            for name, manifest in splits.items()
        },
        "classes": packed.train["classes"],
        "ignored": packed.ignored,
        "rejected": [bad for manifest in splits.values() for bad in manifest["rejected"]],
        "seconds": round(seconds, 2),
    }


def _text(result: dict) -> str:
    records = {name: result[name]["records"] for name in ("train", "val")}
    lines = [f"{result[name]['path']}: {count:,} records" for name, count in records.items()]
    lines.append(f"{len(result['classes'])} classes; {result['ignored']:,} other files ignored")
    if result["changed"]:
        speed = sum(records.values()) / max(result["seconds"], 0.01)
        lines.append(f"packed in {result['seconds']} s, {speed:,.0f} pictures/s")
    else:
        lines.append("unchanged: they were packed from the same files before")
    if result["rejected"]:
        lines.append(f"{len(result['rejected']):,} pictures left out")
    return "\n".join(lines)
