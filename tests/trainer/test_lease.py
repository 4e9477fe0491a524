"""One trainer a run."""

import os
import subprocess
import sys

import pytest

from trainer import lease
from trainer.errors import ConfigError
from trainer.run import Run

HOLD = """
import sys, trainer.lease, trainer.run, pathlib
with trainer.lease.hold(trainer.run.Run(pathlib.Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other_holder(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_holder_is_known_while_it_holds(tmp_path):
    run = Run(tmp_path)
    assert lease.holder(run) is None
    with lease.hold(run):
        assert lease.holder(run)["pid"] == os.getpid()
    assert lease.holder(run) is None


def test_a_second_trainer_is_refused_and_told_who_has_it(tmp_path, other_holder, monkeypatch):
    monkeypatch.setattr(lease, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(ConfigError, match=f"process {other_holder.pid} on .* has it"), lease.hold(Run(tmp_path)):
        pass


def test_a_killed_holder_leaves_nothing_behind(tmp_path, other_holder):
    other_holder.kill()
    other_holder.wait()
    assert lease.holder(Run(tmp_path)) is None
    with lease.hold(Run(tmp_path)):
        pass


def test_a_holder_that_ends_within_the_patience_is_waited_for(tmp_path, other_holder):
    other_holder.stdin.close()
    with lease.hold(Run(tmp_path)):
        assert lease.holder(Run(tmp_path))["pid"] == os.getpid()
