#!/usr/bin/python
"""A virtual environment whose MXNet computes: proven by a product, not by an import."""

import fcntl
import glob
import hashlib
import json
import os
import re
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training import refuse_training
from ansible.module_utils.uv_settings import uv_settings

DOCUMENTATION = """
module: mxnet_venv
short_description: Make a virtual environment in which MXNet computes
description:
  - The environment is made anew when its packages differ from those asked for, or when MXNet gives a wrong product.
  - A directory that holds something else than an environment is left alone, which is an error.
  - Packages are installed by uv, in a fraction of pip's time, where it can be told what pip is told; else by pip.
options:
  path: {type: path, required: true, description: The environment's directory.}
  python: {type: path, required: true, description: The interpreter to make it with.}
  packages: {type: list, elements: str, required: true, description: What to install.}
  constraints: {type: str, required: true, description: Text of a pip constraints file that pins them.}
  wheels: {type: str, default: "", description: Text of a pip requirements file with hashes; installed first.}
  libraries: {type: str, default: "", description: A shell pattern of directories for the dynamic loader to search.}
  libraries_sha256: {type: str, default: "", description: Of the archive that they came from.}
author: The authors of this project
"""

# What pip gives up at: it repeats what did not begin, not what broke off.
BROKEN_OFF = re.compile("Connection broken|Connection reset|timed out")
PIP_TRIES = 3
LOADER_FILE = "/etc/ld.so.conf.d/mxnet.conf"

# np.bool: MXNet looks for the name that numpy 1.24 removed; older numpy still has it.
PRODUCT = """
import warnings; warnings.simplefilter("ignore")
import numpy; numpy.bool = bool
import mxnet
product = mxnet.nd.dot(mxnet.nd.array([[1, 2], [3, 4]]), mxnet.nd.array([[5, 6], [7, 8]])).asnumpy().tolist()
assert product == [[19, 22], [43, 50]], product
"""


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "python": {"type": "path", "required": True},
            "packages": {"type": "list", "elements": "str", "required": True},
            "constraints": {"type": "str", "required": True},
            "wheels": {"type": "str", "default": ""},
            "libraries": {"type": "str", "default": ""}, "libraries_sha256": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)  # another user than root trains with it
    module.params["path"] = os.path.normpath(module.params["path"])
    if is_whole(module):
        module.exit_json(changed=False, path=module.params["path"])
    refuse_other_things(module)
    refuse_training(module, f"make the environment {module.params['path']} anew")
    module.exit_json(changed=module.check_mode or make_alone(module), path=module.params["path"])


def is_whole(module):
    """Whether the environment was made to its end, from the same parameters, and computes."""
    try:
        with open(in_environment(module, ".complete")) as file:
            made_from = file.read()
    except OSError:
        return False
    python = in_environment(module, "bin/python")
    return made_from == digest(module) and os.path.exists(python) and module.run_command(prove(python))[0] == 0


def refuse_other_things(module):
    """What is there is going to be removed, so it must be an environment."""
    path = module.params["path"]
    is_environment = os.path.isfile(in_environment(module, "pyvenv.cfg"))
    holds_something = os.path.lexists(path) and (not os.path.isdir(path) or os.listdir(path))
    if holds_something and not is_environment:
        module.fail_json(
            msg=f"Failed to make an environment in {path}: all that is in it is removed, so it must be empty, or an "
            "older environment (with a file pyvenv.cfg); it holds something else"
        )


def make_alone(module):
    """Makes it while no other process does; False when another one has made it meanwhile."""
    path = module.params["path"]
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_whole(module):
                return False
            clear(module)
            make(module)
    except OSError as error:
        module.fail_json(msg=f"Failed to make an environment in {path}: {error}")
    return True


def clear(module):
    """Leaves nothing but the file that proves it an environment, so that an interrupted one can be made anew."""
    os.makedirs(module.params["path"], exist_ok=True)
    with open(in_environment(module, "pyvenv.cfg"), "a"):
        pass
    for entry in os.scandir(module.params["path"]):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != "pyvenv.cfg":
            os.remove(entry.path)


def make(module):
    attempt(module, "make an environment", [module.params["python"], "-m", "venv", module.params["path"]])
    constraints = write(module, "constraints.txt", module.params["constraints"])
    uv = prepare_uv(module, constraints)
    if module.params["wheels"]:
        wheels = write(module, "wheels.txt", module.params["wheels"])
        install(module, uv, "install MXNet's wheel and its libraries", "--no-deps", "--require-hashes", "-r", wheels)
    install(module, uv, "install MXNet", "-c", constraints, *module.params["packages"])
    if module.params["libraries"]:
        search_libraries(module)
    attempt(module, "compute a product with MXNet", prove(in_environment(module, "bin/python")))
    # Written last: an environment without it is half made.
    write(module, ".complete", digest(module))


def prepare_uv(module, constraints):
    """uv's environment variables; None where pip has to do without it, as with an index that lacks it."""
    # Variables of uv's own would count as well; a setting `quiet` would silence the list.
    speaks_plainly = {"PIP_QUIET": "0", "PIP_VERBOSE": "0"}
    code, config_list, _ = module.run_command(pip(module, "config", "list"), environ_update=speaks_plainly)
    is_clear = code == 0 and not any(name.startswith("UV_") for name in os.environ)
    settings = uv_settings(config_list) if is_clear else None
    if settings is None or run(module, pip(module, "install", "--quiet", "--no-compile", "-c", constraints, "uv"))[0]:
        return None
    # The system's certificates and the best version of all indexes, as pip takes them; no configuration of uv's own.
    return settings | {"UV_SYSTEM_CERTS": "1", "UV_INDEX_STRATEGY": "unsafe-best-match", "UV_NO_CONFIG": "1"}


def install(module, uv, what, *arguments):
    """By uv, and by pip if that fails: it passes over an index that does not answer, and its words are better known."""
    python = in_environment(module, "bin/python")
    if uv is not None:
        code, _ = run(module, [python, "-m", "uv", "pip", "install", "--quiet", "--python", python, *arguments], uv)
        if code == 0:
            return
        module.warn(f"uv could not {what}; pip tries")
    attempt(module, what, pip(module, "install", "--quiet", "--no-compile", *arguments), PIP_TRIES)


def pip(module, *arguments):
    return [in_environment(module, "bin/python"), "-m", "pip", "--disable-pip-version-check", *arguments]


def search_libraries(module):
    """Tells the dynamic loader itself: a service has no login shell that could set a path."""
    folders = sorted(glob.glob(module.params["libraries"]))
    if not folders:
        module.fail_json(msg=f"Failed to find CUDA's libraries: {module.params['libraries']} must be there")
    with open(LOADER_FILE, "w") as file:
        file.write("".join(f"{folder}\n" for folder in folders))
    attempt(module, "let the loader read its directories", ["ldconfig"])


def in_environment(module, name):
    return os.path.join(module.params["path"], name)


def write(module, name, text):
    path = in_environment(module, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def digest(module):
    """Names what the environment holds, and its path, for an environment cannot be moved.

    Not the interpreter: another one that comes first in PATH is no reason to make it anew.
    """
    names = ("path", "packages", "constraints", "wheels", "libraries", "libraries_sha256")
    made_from = [module.params[name] for name in names if module.params[name]]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()


def prove(python):
    return [python, "-I", "-c", PRODUCT]


def attempt(module, what, command, tries=1):
    code, said = run(module, command)
    if code == 0:
        return
    if tries > 1 and BROKEN_OFF.search(said):
        attempt(module, what, command, tries - 1)
        return
    path, last_lines = module.params["path"], "\n".join(said.strip().splitlines()[-15:])
    free_mb = shutil.disk_usage(path).free >> 20
    module.fail_json(msg=f"Failed to {what} in {path} (exit code {code}, {free_mb} MB free there): {last_lines}")


def run(module, command, environment=None):
    """(exit code, what it said). Downloads wait on the environment's own disk: /tmp may be small."""
    downloads = in_environment(module, "downloads")
    os.makedirs(downloads, exist_ok=True)
    places = {"TMPDIR": downloads, "UV_CACHE_DIR": downloads}
    code, out, err = module.run_command(command, environ_update=(environment or {}) | places)
    shutil.rmtree(downloads)
    return code, out + err


if __name__ == "__main__":
    main()
