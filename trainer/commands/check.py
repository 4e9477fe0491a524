"""`check`: looks at every record of a .rec file."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainer.commands.progress import progress
from trainer.data.records import index_path
from trainer.data.verify import Verified, verify
from trainer.errors import ConfigError, DataError


def check(
    file: Annotated[Path, typer.Argument(help="The .rec file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    rebuild_index: Annotated[
        bool, typer.Option("--rebuild-index", help="Write a new .idx from the records' own ids.")
    ] = False,
    threads: Annotated[int, typer.Option(help="Threads that decode.")] = os.cpu_count() or 1,
) -> None:
    """Decode every record of a RecordIO file and list what is damaged; works without an index, too.

    Exit code 66 when something is wrong. Grey, CMYK and PNG pictures are all right.

    Example: python -m trainer check packed/train.rec
    """
    if threads < 1:
        raise ConfigError(f"--threads must be a whole number above 0, got {threads}")
    megabytes = file.stat().st_size / 1e6 if file.is_file() else 0
    with progress("checking", total=megabytes, unit="MB") as advance:
        found = verify(file, threads=threads, rebuild_index=rebuild_index, advance=lambda done: advance(done / 1e6))
    if as_json:
        print(json.dumps({"records": found.records, "bad": found.bad, "ok": found.ok, "problems": found.problems}))
    else:
        _show(file, found)
    if rebuild_index and found.records:
        print(f"wrote {index_path(file)}", file=sys.stderr)
    if not found.ok:
        raise typer.Exit(DataError.exit_code)


def _show(file: Path, found: Verified) -> None:
    for problem in found.problems:
        print(problem)
    for bad in found.bad:
        key = "no key" if bad["key"] is None else f"key {bad['key']}"
        print(f"damaged: {key} at byte {bad['offset']}: {bad['reason']}")
    print(f"{file}: {found.records:,} records, {len(found.bad):,} damaged places{', all is well' if found.ok else ''}")
