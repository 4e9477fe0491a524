#!/usr/bin/python
"""Finds the Python that MXNet can run on and the system packages that it lacks. Changes nothing."""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.python_choice import CANDIDATES, VERSIONS, choose, describe
from ansible.module_utils.system_libraries import missing_packages

DOCUMENTATION = """
module: mxnet_host
short_description: Find the Python for MXNet and the system packages that are missing
description: Returns C(python) (a path), C(missing_packages) (names of Debian packages) and C(is_root).
options: {}
author: The authors of this project
"""


def main():
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    found, probes = choose(CANDIDATES)
    if found is None:
        module.fail_json(
            msg=f"Failed to find a Python for MXNet: it runs on {' and '.join(VERSIONS)}; "
            f"looked for {describe(probes)}"
        )
    missing = missing_packages() if found["has_venv"] else [f"python{found['version']}-venv", *missing_packages()]
    module.exit_json(
        changed=False, python=found["path"], missing_packages=missing, is_root=os.geteuid() == 0
    )


if __name__ == "__main__":
    main()
