"""Where the roles for monitoring may listen."""

import importlib.util

import pytest
from playing import ROLES


@pytest.mark.parametrize("role", ["node_exporter", "prometheus"])
@pytest.mark.parametrize("address, is_private", [
    ("127.0.0.1", True), ("10.0.0.5", True), ("172.31.9.1", True), ("192.168.1.2", True), ("::1", True),
    ("fd00::5", True),
    ("0.0.0.0", False), ("::", False), ("8.8.8.8", False), ("172.32.0.1", False), ("2600::1", False), ("", False),
    ("::ffff:0.0.0.0", False), ("::ffff:8.8.8.8", False), ("localhost", False), ("10.0.0.5:9100", False),
])
def test_only_an_address_that_the_internet_cannot_reach(role, address, is_private):
    path = ROLES / role / "test_plugins" / f"private_address_{role}.py"
    spec = importlib.util.spec_from_file_location("plugin", path)
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)
    assert plugin.is_private_address(address) == is_private
