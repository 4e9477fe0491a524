"""Plays and pictures for the tests of the roles."""

import cv2
import numpy as np
import pytest
import role_modules  # noqa: F401
from playing import run_play


@pytest.fixture
def play(tmp_path):
    """`play("-e", "name=value", ...)` runs train.yml with tmp_path as the user's directory."""
    return lambda *arguments: run_play(tmp_path, *arguments)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of three class folders, 40 pictures of 28 px each, one colour a class."""
    folder = tmp_path_factory.mktemp("pictures") / "colours"
    random = np.random.default_rng(0)
    for channel, name in enumerate(("blue", "green", "red")):
        (folder / name).mkdir(parents=True)
        for number in range(40):
            image = random.integers(0, 80, (28, 28, 3), dtype=np.uint8)
            image[..., channel] += 120
            cv2.imwrite(str(folder / name / f"{number}.jpg"), image)
    return folder


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory, pictures):
    """A folder in which `colours` has been trained, the arguments that did it, and what that play printed."""
    folder = tmp_path_factory.mktemp("finished")
    arguments = [
        "-e", f"trainer_dataset={pictures}", "-e", "trainer_epochs=1", "-e", "trainer_warmup_epochs=0.2",
        "-e", "trainer_batch_size=12",
    ]
    done = run_play(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, arguments, done.stdout
