"""Importing this lets tests import the roles' module_utils by the name that their modules use."""

from pathlib import Path

import ansible.module_utils

_ROLES = Path(__file__).resolve().parents[1] / "roles"
ansible.module_utils.__path__.extend(str(path) for path in _ROLES.glob("*/module_utils"))
