"""`./kit bench`: the kit's input pipeline against other libraries', all in turn; a table, ratios and a plot."""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench import data, results  # noqa: E402

# What each peer needs from the package index; the latest of each, for the comparison is with what is there today.
PACKAGES = {
    "opencv threads": ["numpy", "opencv-python-headless"],
    "PyTurboJPEG": ["numpy", "opencv-python-headless", "PyTurboJPEG"],
    "torch + PIL": ["torch", "torchvision", "pillow"],
    "tf.data": ["tensorflow-cpu"],
    "DALI CPU": ["numpy", "nvidia-dali-cuda120"],
}
ENGINES = ("kit", "kit-wheel", "mxnet", "decode")


class Peer:
    """A peer's process, waiting for its turns. `reason`: why it is left out."""

    def __init__(self, name: str, python: Path, rec: Path):
        self.name, self.reason = name, None
        self._process = subprocess.Popen(
            [python, ROOT / "bench" / "peers.py", name, rec], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        )  # fmt: skip

    def turn(self, threads: int, seconds: float) -> dict | None:
        try:
            self._process.stdin.write(f"{threads} {seconds}\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            said = self._process.stderr.read().splitlines() or ["it ended without a word"]
            self.reason = next((line for line in reversed(said) if "Error" in line), said[-1])
            return None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def main() -> None:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    original, small = data.record_files(options.out)
    python, left_out = _environment(options)
    peers = [Peer(name, python, original) for name in PACKAGES if name not in left_out]
    turns = _measure(options, peers, original, small)
    left_out |= {peer.name: peer.reason for peer in peers if peer.reason}
    rows = [
        {"engine": engine, "threads": threads, "images_per_second": median(t[0] for t in pairs),
         "cpu_ms_per_image": median(t[1] for t in pairs)}
        for (engine, threads), pairs in turns.items()
    ]  # fmt: skip
    results.write(rows, left_out, options.out)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./kit bench", description=__doc__)
    parser.add_argument("--base-python", help=argparse.SUPPRESS)
    parser.add_argument("--environment", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas between (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each; the median counts (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one turn (%(default)s)")
    parser.add_argument("--no-peers", action="store_true", help="only the kit and MXNet")
    parser.add_argument("--out", type=Path, default=ROOT / "run" / "bench", help="where the results go (%(default)s)")
    return parser.parse_args()


def _environment(options: argparse.Namespace) -> tuple[Path, dict[str, str]]:
    """The peers' Python, and which of them could not be installed, with the reason."""
    python, left_out = options.environment / "bin" / "python", {}
    if options.no_peers:
        return python, dict.fromkeys(PACKAGES, "not asked for")
    if not python.exists():
        subprocess.run([options.base_python, "-m", "venv", options.environment], check=True)
    for name, packages in PACKAGES.items():
        print(f"installing {', '.join(packages)}", file=sys.stderr)
        command = [python, "-m", "pip", "install", "--quiet", "--no-compile", *packages]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            left_out[name] = ended.stderr.strip().splitlines()[-1]
    return python, left_out


def _measure(options: argparse.Namespace, peers: list[Peer], original: Path, small: Path) -> dict:
    """(engine, threads) -> (images a second, CPU milliseconds an image) of each round."""
    turns = defaultdict(list)
    threads = [int(count) for count in options.threads.split(",")]
    try:
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            _take_kit(turns, options, original, ENGINES, "")
            _take_kit(turns, options, small, ("kit",), " at 256")
            for peer in peers:
                for count in threads:
                    turn = None if peer.reason else peer.turn(count, options.seconds)
                    if turn:
                        speeds = turn["images"] / turn["seconds"], 1000 * turn["cpu_seconds"] / turn["images"]
                        turns[peer.name, count].append(speeds)
    finally:
        for peer in peers:
            peer.close()
    return turns


def _take_kit(turns: dict, options: argparse.Namespace, rec: Path, engines: tuple[str, ...], suffix: str) -> None:
    command = [
        sys.executable, "-W", "ignore", "-m", "trainer", "bench", "pipeline", "--data", rec, "--threads",
        options.threads, "--engines", ",".join(engines), "--rounds", "1", "--seconds", str(options.seconds), "--json",
    ]  # fmt: skip
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    for row in json.loads(ended.stdout):
        turns[row["engine"] + suffix, row["threads"]].append((row["images_per_second"], row["cpu_ms_per_image"]))


if __name__ == "__main__":
    main()
