"""crash.txt: what Python was doing when a fatal signal ended the trainer, written by the dying process itself."""

import faulthandler
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.run import PROJECT, Run

# As faulthandler names them, in its first line.
_SIGNALS = {
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
}


@contextmanager
def recording(run: Run) -> Iterator[None]:
    """While the block runs, SIGSEGV, SIGABRT, SIGFPE, SIGBUS and SIGILL leave every thread's stack in crash.txt.

    What an earlier process left there becomes crash-before.txt. MXNet must be imported by now: it would take SIGSEGV
    for itself. On a disk that takes no file, the block runs without.
    """
    try:
        file = _opened(run)
    except OSError as error:
        print(f"{run.crash}: cannot be written, so a crash would leave no trace: {error}", file=sys.stderr, flush=True)
        yield
        return
    with file:
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()
            run.crash.unlink(missing_ok=True)


def left_by(run: Run) -> dict | None:
    """`{signal, where}` of the last trainer's crash; None when it left none. where: the innermost line of this code."""
    try:
        text = run.crash.read_text(errors="replace")
    except OSError:
        return None
    if not text.strip():
        return None
    what = text.splitlines()[0].removeprefix("Fatal Python error: ").strip()
    return {"signal": _SIGNALS.get(what, what), "where": _where(text)}


def _opened(run: Run):
    if run.crash.exists() and run.crash.stat().st_size:
        os.replace(run.crash, run.crash_before)
    return open(run.crash, "wb", buffering=0)


def _where(text: str) -> str | None:
    """Of the thread that met the signal; it may have no Python at all on its stack."""
    current = text.partition("Current thread")[2].partition("\n\n")[0]
    frames = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', current)
    ours = [frame for frame in frames if Path(frame[0]).is_relative_to(PROJECT / "trainer")]
    for file, line, function in (ours or frames)[:1]:
        return f"{file.removeprefix(f'{PROJECT}/')}:{line} in {function}"
    return None
