"""Builds the crop decoder into the Python environment: `python -m trainer.data.native`.

It needs a C compiler and libjpeg-turbo's headers (Debian: gcc libc6-dev libjpeg62-turbo-dev). Where they are missing,
or what they make does not work, nothing is built and the exit code is 0 all the same: there is another decoder.
"""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("crop.c")
_FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-Werror=implicit-function-declaration")
_LIBRARIES = ("-ljpeg", "-lm")
_BUILD_SECONDS = 120


@functools.lru_cache(maxsize=1)
def library_path() -> Path:
    """Where the decoder of this very source belongs: another source, another name."""
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(_FLAGS).encode()).hexdigest()
    return Path(sys.prefix, "lib", f"trainer-crop-{digest[:16]}.so")


def build() -> str | None:
    """Makes the library unless it is there; returns why it could not be made."""
    if library_path().exists():
        return None
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return "no C compiler"
    partial = library_path().with_suffix(f".{os.getpid()}.partial")
    try:
        return _make(compiler, partial)
    finally:
        partial.unlink(missing_ok=True)


def _make(compiler: str, partial: Path) -> str | None:
    failure = _failure([compiler, *_FLAGS, "-o", str(partial), str(SOURCE), *_LIBRARIES])
    if failure is not None:
        return f"compiling failed: {failure}"
    failure = _failure([sys.executable, "-m", "trainer.data.native.proof", str(partial)])
    if failure is not None:
        return f"what was built does not work: {failure}"
    os.replace(partial, library_path())
    return None


def _failure(command: list[str]) -> str | None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ended.returncode == 0:
        return None
    said = [line for line in ended.stderr.splitlines() if "error" in line.lower()] or ended.stderr.splitlines()
    return said[0] if said else f"exit code {ended.returncode}"
