"""A handler is lost when a play dies between the change and its end. No role has one: the state of things decides."""

import pytest
from playing import ROLES


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir()))
def test_no_role_leaves_a_restart_to_a_handler(role):
    assert not (ROLES / role / "handlers").exists()
    tasks = [path for path in (ROLES / role).rglob("*.yml") if "notify:" in path.read_text()]
    assert tasks == []
