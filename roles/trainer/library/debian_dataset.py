#!/usr/bin/python
"""A data set that Debian packages: installed by root, downloaded and unpacked elsewhere by anybody else."""

import glob
import os
import shutil

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: debian_dataset
short_description: Get a data set from a Debian package
description:
  - Root installs the package. For an ordinary user it is downloaded and unpacked below C(directory).
  - Returns C(path) (of the data set) and C(installed) (whether a system package was installed now).
options:
  package: {type: str, required: true, description: Name of the package.}
  folder: {type: str, required: true, description: "Where the package puts the data set, without the leading /."}
  directory: {type: path, required: true, description: Where an ordinary user unpacks packages.}
author: The authors of this project
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "package": {"type": "str", "required": True},
            "folder": {"type": "str", "required": True},
            "directory": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    is_root = os.geteuid() == 0
    places = [os.path.join(root, module.params["folder"]) for root in ("/", module.params["directory"])]
    for path in places:
        if os.path.isdir(path):
            module.exit_json(changed=False, installed=False, path=path)
    if not module.check_mode:
        (install if is_root else unpack)(module)
    module.exit_json(changed=True, installed=is_root, path=places[0 if is_root else 1])


def install(module):
    apt(module, "update")
    apt(module, "install", "--yes", "--no-install-recommends", module.params["package"])


def unpack(module):
    directory = module.params["directory"]
    own = os.path.join(directory, "apt")
    shutil.rmtree(own, ignore_errors=True)  # what an interrupted run left
    for name in ("lists/partial", "archives/partial"):
        os.makedirs(os.path.join(own, name), exist_ok=True)
    options = [f"-oDir::State::Lists={own}/lists", f"-oDir::Cache={own}", f"-oDir::Cache::archives={own}/archives"]
    apt(module, *options, "update")
    apt(module, *options, "download", module.params["package"], cwd=own)
    # Renamed once it is whole: a folder with the final name is complete.
    run(module, ["dpkg-deb", "-x", *glob.glob(os.path.join(own, "*.deb")), os.path.join(own, "files")])
    target = os.path.join(directory, module.params["folder"])
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.rename(os.path.join(own, "files", module.params["folder"]), target)
    shutil.rmtree(own)


def apt(module, *arguments, cwd=None):
    run(module, ["apt-get", "--quiet", "-oDPkg::Lock::Timeout=300", *arguments], cwd)


def run(module, command, cwd=None):
    try:
        code, out, err = module.run_command(
            command, cwd=cwd, environ_update={"DEBIAN_FRONTEND": "noninteractive"}, handle_exceptions=False
        )
    except OSError as error:
        code, out, err = 127, "", str(error)
    # An update fails for any one source that does not answer; what follows tells whether it mattered.
    if code != 0 and "update" not in command:
        last_lines = "; ".join((err or out).strip().splitlines()[-3:])
        module.fail_json(
            msg=f"Failed to get Debian's package {module.params['package']}: {last_lines}. Train on data of your own: "
            "-e trainer_dataset=FOLDER (class folders, or train/ and val/ of those), or "
            "-e trainer_data_train=FILE.rec -e trainer_data_val=FILE.rec"
        )


if __name__ == "__main__":
    main()
