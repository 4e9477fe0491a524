#!/usr/bin/python
"""Proves that an ordinary user's MXNet computes on every device, and that the devices can add up."""

import json
import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: mxnet_proof
short_description: Prove MXNet on every device
description:
  - One product on each device and one sum over all of them, by a user that is not root; once for each set.
  - Where systemd runs, in a service of its own, so that what a service is kept from is found out.
  - When GPUs that talk to each other directly take too long, they are told to go through the host's memory; the file
    C(environment) in the environment then says so to whoever starts a trainer.
options:
  path: {type: path, required: true, description: The environment's directory.}
  made_anew: {type: bool, default: false, description: Whether this play made it (or would have), without a proof yet.}
  devices: {type: list, elements: str, required: true, description: MXNet's names of the devices.}
  identity: {type: list, elements: str, required: true, description: What tells these devices from others.}
  sandbox: {type: str, default: "", description: "The service's settings, as lines of a unit file."}
  limit_seconds: {type: int, default: 300, description: How long one try may take.}
author: The authors of this project
"""
# The sum goes the way that training takes: through the key-value store `device`.
PROOF = """
import sys, warnings; warnings.simplefilter("ignore")
import numpy; numpy.bool = bool
import mxnet
contexts = [eval("mxnet." + name) for name in sys.argv[1:]]
for context in contexts:
    left, right = (mxnet.nd.array(values, ctx=context) for values in ([[1, 2], [3, 4]], [[5, 6], [7, 8]]))
    product = mxnet.nd.dot(left, right).asnumpy().tolist()
    assert product == [[19, 22], [43, 50]], (context, product)
store = mxnet.kv.create("device")
store.init(0, mxnet.nd.zeros((256, 256), ctx=contexts[0]))
parts = [mxnet.nd.ones((256, 256), ctx=context) * (number + 1) for number, context in enumerate(contexts)]
store.push(0, parts)
store.pull(0, parts)
total = len(contexts) * (len(contexts) + 1) / 2
for context, part in zip(contexts, parts):
    assert (part.asnumpy() == total).all(), (context, total)
print("proven")
"""
TIMED_OUT = 124
WITHOUT_P2P = "MXNET_ENABLE_GPU_P2P=0"


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True}, "made_anew": {"type": "bool", "default": False},
            "devices": {"type": "list", "elements": "str", "required": True},
            "identity": {"type": "list", "elements": "str", "required": True},
            "sandbox": {"type": "str", "default": ""}, "limit_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    stamp = os.path.join(module.params["path"], "proven")
    if read(stamp) == wanted(module) and not module.params["made_anew"]:
        module.exit_json(changed=False)
    if module.check_mode:
        module.exit_json(changed=True)
    lines = prove(module)
    write(module, os.path.join(module.params["path"], "environment"), "".join(f"{line}\n" for line in lines))
    write(module, stamp, wanted(module))
    if lines:
        module.warn("GPUs that talk to each other directly did not end in time: they go through the host's memory now")
    module.exit_json(changed=True, environment=lines)


def wanted(module):
    return json.dumps([module.params[name] for name in ("devices", "identity", "sandbox")])


def prove(module):
    """Lines of the environment that the devices need."""
    code, said = attempt(module)
    if code == TIMED_OUT and len(module.params["devices"]) > 1:
        code, said = attempt(module, WITHOUT_P2P)
        if code == 0:
            return [WITHOUT_P2P]
    if code:
        reason = f"no answer in {module.params['limit_seconds']} s" if code == TIMED_OUT else f"exit code {code}"
        module.fail_json(
            msg=f"Failed to compute with MXNet on {', '.join(module.params['devices'])} ({reason}), with no more "
            "rights than the trainer has: " + "\n".join(said.strip().splitlines()[-15:])
        )
    return []


def attempt(module, *environment):
    python = os.path.join(module.params["path"], "bin/python")
    limit = ["timeout", "--foreground", "--kill-after=10", str(module.params["limit_seconds"])]
    proof = [python, "-I", "-c", PROOF, *module.params["devices"]]
    command = [*as_ordinary_user(module), "env", *environment, *limit, *proof]
    code, out, err = module.run_command(command, cwd="/")
    if code == 0 and "proven" not in out:  # a service that somebody ends has ended well, to systemd
        code = 1
    return TIMED_OUT if code in (124, 137, -9) else code, out + err


def as_ordinary_user(module):
    """What comes before a command for that."""
    if os.geteuid() != 0:
        return []
    if not os.path.isdir("/run/systemd/system"):
        return ["runuser", "-u", "nobody", "--"]
    lines = [line for line in module.params["sandbox"].splitlines() if line and not line.startswith("#")]
    service = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--property=DynamicUser=yes"]
    return [*service, *(f"--property={line}" for line in lines), "--"]


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def write(module, path, text):
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as error:
        module.fail_json(msg=f"Failed to write {path}: {error}")


if __name__ == "__main__":
    main()
