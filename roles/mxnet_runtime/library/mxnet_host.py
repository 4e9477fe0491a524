#!/usr/bin/python
"""Finds the Python that MXNet can run on, the system packages that it lacks, the GPUs' wheel. Changes nothing."""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gpus import NvmlError, gpus_here
from ansible.module_utils.python_choice import CANDIDATES, VERSIONS, choose, describe
from ansible.module_utils.system_libraries import missing_packages
from ansible.module_utils.wheel_choice import NoWheelError, wheel_for

DOCUMENTATION = """
module: mxnet_host
short_description: Find the Python for MXNet and the system packages that are missing
description:
  - Returns C(python) (a path), C(missing_packages) (names of Debian packages), C(is_root), C(gpus) and C(wheel).
  - GPUs that none of MXNet's wheels has code for are an error, as is a driver that does not answer.
options:
  use_gpus: {type: bool, default: true, description: Whether to look for GPUs.}
author: The authors of this project
"""


def main():
    module = AnsibleModule(
        argument_spec={"use_gpus": {"type": "bool", "default": True}}, supports_check_mode=True
    )
    found, probes = choose(CANDIDATES)
    if found is None:
        module.fail_json(
            msg=f"Failed to find a Python for MXNet: it runs on {' and '.join(VERSIONS)}; "
            f"looked for {describe(probes)}"
        )
    missing = missing_packages() if found["has_venv"] else [f"python{found['version']}-venv", *missing_packages()]
    gpus, wheel = look_at_gpus(module)
    module.exit_json(
        changed=False, python=found["path"], missing_packages=missing, is_root=os.geteuid() == 0, gpus=gpus, wheel=wheel
    )


def look_at_gpus(module):
    try:
        gpus = gpus_here() if module.params["use_gpus"] else []
        return gpus, wheel_for([(gpu["name"], tuple(gpu["capability"])) for gpu in gpus])
    except NvmlError as error:
        module.fail_json(msg=f"Failed to ask the GPU driver which GPUs there are: {error}")
    except NoWheelError as error:
        module.fail_json(msg=f"Failed to choose MXNet's wheel: {error}")


if __name__ == "__main__":
    main()
