"""No file can kill the process: damaged record files, by the thousand, in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LOADED_SHARE = 0.1


@pytest.mark.parametrize("count, seed", [(800, 1), pytest.param(10_000, 2, marks=pytest.mark.slow)])
def test_damaged_files_end_in_words_never_in_a_crash(tmp_path, count, seed):
    ended = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", TESTS / "fuzz_records.py", str(count), str(seed), tmp_path],
        env={**os.environ, "PYTHONPATH": str(TESTS.parent)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    files, _, _, loaded, memory_mb = map(int, ended.stdout.split())
    assert files == count
    assert LOADED_SHARE * count < loaded < count
    assert memory_mb < 500
