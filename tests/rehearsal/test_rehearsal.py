"""The whole project from end to end, as `./kit rehearsal --short` plays it."""

import json
import os
import subprocess
import sys

from tests.rehearsal.playing import PROJECT


def test_a_short_rehearsal_keeps_every_promise(layers, tmp_path):
    """Rented where it is cheapest, taken back, resumed elsewhere, finished bit for bit, retired, paid to the cent."""
    command = [sys.executable, "-P", "-m", "tests.rehearsal.story", "--short", "--seed", "1", "--json"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path / "story")], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, env=os.environ | {"PYTHONPATH": f"{PROJECT}:{PROJECT}/tests"}, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [row["what"] for row in told["outcomes"]][0] == "taken back after a notice"
    assert told["lost"]["steps_lost"] == 0
    assert told["bill_usd"] > 0
    assert abs(told["bill_usd"] - told["ledger_usd"]) < 0.005
