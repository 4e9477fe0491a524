"""Proof by counterfactual: the run's input without its network, its network without input, and more decode threads."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from trainer import lease
from trainer.commands.progress import progress
from trainer.config import Config, load
from trainer.errors import TrainerError
from trainer.observe.diagnose import Diagnosis
from trainer.observe.diagnose.proof import Measured, proven
from trainer.run import PROJECT, Run


def prove(run: Run, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with what three short measurements on this machine say about it.

    Beside a run that is training only the input is measured (the devices are taken), and it has to share the processor
    with the run: it shows at least what the input can give.
    """
    config = load(run.config)
    training = lease.holder(run) is not None
    more = config.model_copy(update={"decode_threads": 2 * config.decode_threads})
    wanted = {"input": (config, "--test-io"), "input_with_twice_the_threads": (more, "--test-io")}
    wanted |= {} if training else {"network": (config, "--benchmark")}
    with TemporaryDirectory(prefix="proof-") as folder, progress(
        "measuring", total=len(wanted), unit="halves of training"
    ) as advance:
        speeds = {name: _measure(config, option, Path(folder), advance) for name, (config, option) in wanted.items()}
    return proven(diagnosis, Measured(**speeds, decode_threads=config.decode_threads, beside_the_run=training))


def _measure(config: Config, option: str, folder: Path, advance) -> float:
    """Images/s of one half of training, in a process of its own."""
    file = folder / "proof.toml"
    file.write_text(_elsewhere(config, folder).to_toml())
    command = [sys.executable, "-m", "trainer", "train", "--config", str(file), option, "1", "--json"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no word"]
        raise TrainerError(f"measuring with {option} failed: {last[0].removeprefix('error: ')}")
    advance(1)
    return float(json.loads(done.stdout)["images_per_second"])


def _elsewhere(config: Config, folder: Path) -> Config:
    return config.model_copy(update={"run_directory": folder / "run"})
