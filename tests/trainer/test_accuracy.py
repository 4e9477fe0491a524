"""A network learns as much through the kit's loader as through MXNet's iterator."""

import json
import subprocess
import sys

import numpy as np
import pytest
import simplejpeg
import tomli_w
from tiny_data import PIXELS

from trainer.data.record_writer import RecordWriter

SEEDS = (1, 2, 3)
TINTS = np.array([(9, 0, 0), (0, 9, 0), (0, 0, 9), (0, 0, 0)])


def tinted(path, count, seed):
    """Noise with a tint that says the class, in any part and either way round."""
    generator = np.random.default_rng(seed)
    with RecordWriter(path) as writer:
        for key in range(count):
            noise = generator.normal(110, 45, (PIXELS, PIXELS, 3)) + TINTS[key % 4] + generator.normal(0, 4, 3)
            picture = simplejpeg.encode_jpeg(noise.clip(0, 255).astype(np.uint8), 95, "RGB", "444")
            writer.write(key, float(key % 4), picture)
        writer.publish()
    return str(path)


def top1(recipe, folder, engine, seed):
    """Of a run trained with random crops."""
    values = recipe | {
        "run_directory": str(folder / f"{engine}-{seed}"), "input_engine": engine, "seed": seed, "epochs": 6,
        "augmentation": "crop", "base_learning_rate": 0.2,
    }  # fmt: skip
    path = folder / f"{engine}-{seed}.toml"
    path.write_text(tomli_w.dumps(values))
    command = [sys.executable, "-m", "trainer", "train", "--config", str(path), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)["top1"]


@pytest.mark.slow
def test_accuracy_is_that_of_mxnets_iterator(tiny_recipe, tmp_path):
    data = {"data_train": tinted(tmp_path / "t.rec", 480, 1), "data_val": tinted(tmp_path / "v.rec", 400, 2)}
    recipe = tiny_recipe | data | {"mean": [110, 110, 110], "std": [45, 45, 45]}
    kit, mxnet = (np.array([top1(recipe, tmp_path, engine, seed) for seed in SEEDS]) for engine in ("kit", "mxnet"))
    print(kit, mxnet)
    assert 0.4 < kit.min() <= kit.max() < 0.99  # chance is 0.25, and a recipe that gets all right would hide a loss
    noise = max(0.02, np.hypot(kit.std(), mxnet.std()))
    assert abs(kit.mean() - mxnet.mean()) < 2 * noise, (kit, mxnet)
