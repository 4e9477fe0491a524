#!/usr/bin/python
"""The trainer's package on the target: unpacked from one archive, replaced as a whole."""

import base64
import gzip
import hashlib
import io
import os
import shutil
import tarfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.controller import OPTION, refuse_controller

DOCUMENTATION = """
module: trainer_code
short_description: Put a Python package on the target
description: The package is replaced as a whole when its archive differs; what was built into the old one goes with it.
options:
  path: {type: path, required: true, description: The folder that holds the package.}
  archive: {type: str, required: true, description: The package as a compressed tar file in base64.}
  controller_id: {type: str, required: true, description: Machine id of the controller, which is no trainer.}
author: The authors of this project
"""


def main():
    module = AnsibleModule(
        # Not secret, but too long for any output.
        argument_spec={
            "path": {"type": "path", "required": True}, "archive": {"type": "str", "required": True, "no_log": True}
        } | OPTION,
        supports_check_mode=True,
    )
    refuse_controller(module, "install the trainer as a service")
    path = module.params["path"]
    # Compressed, the same files may be other bytes: that is up to the controller.
    archive = gzip.decompress(base64.b64decode(module.params["archive"]))
    digest = hashlib.sha256(archive).hexdigest()
    changed = read(os.path.join(path, "digest")) != digest
    if changed and not module.check_mode:
        try:
            replace(path, archive, digest)
        except OSError as error:
            module.fail_json(msg=f"Failed to put the trainer's code into {path}: {error}")
    module.exit_json(changed=changed, digest=digest)


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def replace(path, archive, digest):
    part = path + ".part"
    os.umask(0o022)  # whoever trains reads it
    shutil.rmtree(part, ignore_errors=True)  # what an interrupted run left, or nothing
    os.makedirs(part, mode=0o755)
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        file.extractall(part, filter="data") if hasattr(tarfile, "data_filter") else file.extractall(part)
    with open(os.path.join(part, "digest"), "w") as file:
        file.write(digest)
    shutil.rmtree(path, ignore_errors=True)  # not there on a fresh host; what cannot go makes the rename fail
    os.rename(part, path)


if __name__ == "__main__":
    main()
