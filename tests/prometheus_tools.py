"""Debian's own promtool and prometheus, which ./kit test unpacks; tests that need them are skipped without."""

import shutil
import subprocess
from pathlib import Path

import pytest

_UNPACKED = Path(__file__).resolve().parents[1] / ".kit" / "prometheus" / "usr" / "bin"


def program(name: str) -> str:
    """Its path."""
    found = shutil.which(name, path=_UNPACKED) or shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: Debian's package prometheus, which ./kit test unpacks where apt-get can get it")
    return found


def promtool(*arguments: str, text: str | None = None, fails: bool = False) -> str:
    """What it says, in which it must not fail (or must)."""
    done = subprocess.run([program("promtool"), *arguments], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr
