"""What the README promises of the first minutes: a clean clone trains within 6 minutes to 0.85 top-1, again in 20 s."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST_SECONDS, AGAIN_SECONDS, TOP1 = 360, 20, 0.85


def seconds_of(command: list[str], checkout: str) -> float:
    """How long it takes, in an environment that knows nothing of this checkout's."""
    environment = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "ANSIBLE_CONFIG")}
    started = time.monotonic()
    subprocess.run(command, cwd=checkout, env=environment, check=True)
    return time.monotonic() - started


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kit-first-run-") as checkout:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), checkout], check=True)
        first = seconds_of(["./kit", "train"], checkout)
        again = seconds_of(["./kit", "train"], checkout)
        report = json.loads(next(Path(checkout, "run").glob("*/report.json")).read_text())
    rows = [
        ("first ./kit train", first, "s", first <= FIRST_SECONDS, f"at most {FIRST_SECONDS}"),
        ("./kit train again", again, "s", again <= AGAIN_SECONDS, f"at most {AGAIN_SECONDS}"),
        ("top-1", report["top1"], "", report["top1"] >= TOP1, f"at least {TOP1}"),
    ]
    for name, value, unit, holds, limit in rows:
        print(f"{'ok    ' if holds else 'MISSED'}  {name}: {value:.4g} {unit} ({limit})")
    return 0 if all(row[3] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
