"""`check`: looks at every record of a .rec file."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainer.commands.progress import progress
from trainer.data.record_writer import RecordWriter
from trainer.data.records import index_path
from trainer.data.verify import Verified, verify
from trainer.errors import ConfigError, DataError


def check(
    file: Annotated[Path, typer.Argument(help="The .rec file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    rebuild_index: Annotated[
        bool, typer.Option("--rebuild-index", help="Write a new .idx from the records' own ids.")
    ] = False,
    clean_copy: Annotated[
        Path | None, typer.Option(help="Write the whole records, and their .idx, to this .rec file.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads that decode.")] = os.cpu_count() or 1,
) -> None:
    """Decode every record of a RecordIO file and list what is damaged; works without an index, too.

    Exit code 66 when something is wrong. Grey, CMYK and PNG pictures are all right.

    \b
    Example: python -m trainer check packed/train.rec
    Example: python -m trainer check packed/train.rec --clean-copy packed/clean.rec
    """
    if threads < 1:
        raise ConfigError(f"--threads must be a whole number above 0, got {threads}")
    megabytes = file.stat().st_size / 1e6 if file.is_file() else 0
    if clean_copy is not None and clean_copy.resolve() == file.resolve():
        raise ConfigError(f"--clean-copy must be another file than {file}, got {clean_copy}")
    with progress("checking", total=megabytes, unit="MB") as advance:
        options = {
            "threads": threads, "rebuild_index": rebuild_index, "advance": lambda done: advance(done / 1e6)
        }  # fmt: skip
        found = _verify_and_copy(file, clean_copy, options) if clean_copy else verify(file, **options)
    if as_json:
        print(json.dumps({"records": found.records, "bad": found.bad, "ok": found.ok, "problems": found.problems}))
    else:
        _show(file, found)
    if rebuild_index and found.records:
        print(f"wrote {index_path(file)}", file=sys.stderr)
    if not found.ok:
        raise typer.Exit(DataError.exit_code)


def _verify_and_copy(file: Path, clean_copy: Path, options: dict) -> Verified:
    with RecordWriter(clean_copy) as writer:
        found = verify(file, **options, keep=writer.write_framed)
        if not writer.records:
            raise DataError(f"{file}: none of its records is whole, so there is nothing to copy")
        writer.publish()
        print(f"wrote {clean_copy}: {writer.records:,} whole records", file=sys.stderr)
    return found


def _show(file: Path, found: Verified) -> None:
    for problem in found.problems:
        print(problem)
    for bad in found.bad:
        key = "no key" if bad["key"] is None else f"key {bad['key']}"
        print(f"damaged: {key} at byte {bad['offset']}: {bad['reason']}")
    print(f"{file}: {found.records:,} records, {len(found.bad):,} damaged places{', all is well' if found.ok else ''}")
