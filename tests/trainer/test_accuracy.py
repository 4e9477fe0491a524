"""A network learns as much through the kit's loader as through MXNet's iterator."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tomli_w

SEEDS = (1, 2, 3)


def top1(recipe, folder, engine, seed):
    """Of a run trained with shifted pictures, which both engines know."""
    values = recipe | {
        "run_directory": str(folder / f"{engine}-{seed}"), "input_engine": engine, "seed": seed, "epochs": 6,
        "augmentation": "pad", "base_learning_rate": 0.4,
    }  # fmt: skip
    path = folder / f"{engine}-{seed}.toml"
    path.write_text(tomli_w.dumps(values))
    command = [sys.executable, "-m", "trainer", "train", "--config", str(path), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)["top1"]


@pytest.mark.slow
def test_accuracy_is_that_of_mxnets_iterator(tiny_recipe, tmp_path):
    kit, mxnet = (np.array([top1(tiny_recipe, tmp_path, e, seed) for seed in SEEDS]) for e in ("kit", "mxnet"))
    assert kit.min() > 0.5  # chance is 0.25
    noise = max(0.03, np.hypot(kit.std(), mxnet.std()))
    assert abs(kit.mean() - mxnet.mean()) < 2 * noise, (kit, mxnet)
