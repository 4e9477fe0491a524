"""What a unit of the trainer needs, also when its files are only to change: on disk they are still the old ones."""

import sys
from types import SimpleNamespace

import pytest
from playing import ROLES

sys.path.insert(0, str(ROLES / "trainer" / "library"))
from trainer_service import needed  # noqa: E402


@pytest.mark.parametrize(("state", "foreseen", "action"), [
    ("active", [], ""),
    ("active", ["/no/other"], ""),
    ("active", ["/no/other", "/no/digest"], "restart"),
    ("activating", ["/no/trainer.toml"], "restart"),
    ("inactive", [], "start"),
    ("failed", ["/no/digest"], "start"),
])
def test_a_unit_that_runs_is_restarted_for_a_file_of_its_own_that_is_to_change(state, foreseen, action):
    """Neither it nor its files are there: nothing is what a start of it has noted."""
    module = SimpleNamespace(params={"foreseen": foreseen}, run_command=lambda command: (0, f"{state}\n", ""))
    assert needed(module, "not-here.service", ["/no/trainer.toml", "/no/digest"]) == action
