"""The survey of 20 regions, each call 500 ms away: all at once against the slowest region and one after another.

Against the double of AWS in tests/fakes/aws, in a process of its own.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import role_modules  # noqa: E402, F401
from ansible.module_utils.spot_survey import survey  # noqa: E402

REGIONS = (
    "us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1", "eu-west-1", "eu-west-2",
    "eu-west-3", "eu-central-1", "eu-north-1", "eu-south-1", "ap-south-1", "ap-northeast-1", "ap-northeast-2",
    "ap-northeast-3", "ap-southeast-1", "ap-southeast-2", "af-south-1", "me-south-1",
)  # fmt: skip
LATENCY_SECONDS = 0.5
MOST_OF_SLOWEST, LEAST_SPEEDUP = 1.5, 10.0
P2 = "p2.16xlarge"
WANTED = {
    "types": [P2], "known_types": [P2], "regions": [], "snapshot_id": "", "snapshot_tags": {"dataset": "imagenet"},
    "kms_key_alias": "", "timeout_seconds": 120,
}  # fmt: skip


def scenario():
    offers = "\n".join(
        f'[[offers]]\nregion = "{region}"\ninstance_types = ["{P2}"]\non_demand_usd_per_hour = 14.4\n'
        f'spot_usd_per_hour = [["-6d", {4 + number / 10}], ["-1h", {1 + number / 10}]]'
        for number, region in enumerate(REGIONS)
    )
    return f"{offers}\n[[latency]]\nseconds = {LATENCY_SECONDS}\n"


def start_double(folder):
    path = Path(folder, "market.toml")
    path.write_text(scenario())
    double = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.aws", "--scenario", path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    os.environ["AWS_ENDPOINT_URL"] = double.stdout.readline().split("=", 1)[1].strip()
    os.environ |= {"AWS_ACCESS_KEY_ID": "double", "AWS_SECRET_ACCESS_KEY": "double"}
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    return double


def seconds_of_survey(regions):
    started = time.monotonic()
    found = survey(WANTED | {"regions": regions})
    failed = [name for name, row in found["regions"].items() if row["state"] != "surveyed"]
    if failed or len(found["regions"]) != len(regions or REGIONS):
        sys.exit(f"regions failed: {failed}")
    return time.monotonic() - started


def main():
    with tempfile.TemporaryDirectory(prefix="kit-bench-") as folder:
        double = start_double(folder)
        try:
            seconds_of_survey([REGIONS[0]])  # what is read from disk once
            together = min(seconds_of_survey([]) for _ in range(3))
            alone = [seconds_of_survey([region]) for region in REGIONS]
        finally:
            double.terminate()
            double.wait()
    print(f"{len(REGIONS)} regions, {LATENCY_SECONDS * 1000:.0f} ms a call: together {together:.1f} s, the slowest "
          f"alone {max(alone):.1f} s, one after another {sum(alone):.1f} s")  # fmt: skip
    rows = [
        (f"of the slowest region: {together / max(alone):.2f} x", together <= MOST_OF_SLOWEST * max(alone),
         f"at most {MOST_OF_SLOWEST} x"),
        (f"faster than one after another: {sum(alone) / together:.1f} x", sum(alone) >= LEAST_SPEEDUP * together,
         f"at least {LEAST_SPEEDUP:.0f} x"),
    ]  # fmt: skip
    for text, holds, limit in rows:
        print(f"{'ok    ' if holds else 'MISSED'}  survey: {text} ({limit})")
    return 0 if all(row[1] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
