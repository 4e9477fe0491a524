"""The modules of role data_volume in this process, called again and again as the role's action plugin does."""

import importlib.util
import json
import time

from ansible.module_utils.testing import patch_module_args

from tests.roles.playing import ROLES


def load(name, role="data_volume"):
    spec = importlib.util.spec_from_file_location(f"{role}_{name}", ROLES / role / "library" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def look(module, capsys, arguments, check=False):
    """What one look tells."""
    with patch_module_args(arguments | {"_ansible_check_mode": check}):
        try:
            module.main()
        except SystemExit:
            told = json.loads(capsys.readouterr().out.splitlines()[-1])
            told.pop("invocation", None)
            return told
    raise AssertionError("the module must end by itself")


def drive(module, capsys, arguments, seconds=60.0, check=False):
    """Looks until nothing is waited for, or for so long; the last look, with `changed` of all and `waits`."""
    arguments, changed, waits, deadline = dict(arguments), False, [], time.monotonic() + seconds
    while True:
        told = look(module, capsys, arguments, check)
        changed = changed or told.get("changed", False)
        if told.get("waiting_for"):
            waits.append(told["waiting_for"])
        if not told.get("waiting_for") or time.monotonic() >= deadline or check:
            return told | {"changed": changed, "waits": waits}
        arguments |= told.get("next", {})
        time.sleep(0.02)
