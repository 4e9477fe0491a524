#!/usr/bin/python
"""Finds the disk of a volume in the host and reads what is on it. Changes nothing."""

import glob
import json
import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.controller import OPTION, refuse_controller
from ansible.module_utils.disk_content import (
    GROWABLE_BYTES,
    filesystem_bytes,
    names,
    obstacle,
    parse_export,
    sample_offsets,
    warm_up_words,
)

DOCUMENTATION = """
module: data_disk
short_description: Find the disk of a volume and read what is on it
description:
  - Waits until the disk is there, and fails with the reason when it holds anything but an ext4 or xfs file system.
  - A blank disk is an error, unless it was created blank for this run and reads as zeros wherever it is looked at.
  - Returns C(path), C(filesystem), C(uuid), C(blank), C(mounted), C(growable), C(warm_up) (in words).
options:
  progress: {type: path, required: true, description: Where the warm-up writes how far it is.}
  volume_id: {type: str, required: true, description: The volume's id.}
  device: {type: str, default: "", description: The attachment's device name, for Xen.}
  mount_point: {type: path, required: true, description: Where it is to be mounted.}
  wait_seconds: {type: int, required: true, description: How long to wait for the disk.}
  controller_id: {type: str, required: true, description: Machine id of the controller, which is no trainer.}
  created_blank: {type: bool, default: false, description: Whether the volume was created blank for this run.}
author: The authors of this project
"""
SAMPLE_BYTES = 1 << 20


def main():
    options = {"device": {"type": "str", "default": ""}} | OPTION
    options |= {"volume_id": {"type": "str", "required": True}, "mount_point": {"type": "path", "required": True}}
    options |= {"progress": {"type": "path", "required": True}}
    options |= {"wait_seconds": {"type": "int", "required": True}, "created_blank": {"type": "bool", "default": False}}
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    refuse_controller(module, "look for the data volume")
    path = wait_for_disk(module)
    probed = probe(module, path)
    mounts = mount_points(path)
    refuse_obstacles(module, path, probed, mounts)
    kind = probed.get("TYPE", "")
    module.exit_json(
        changed=False, path=path, filesystem=kind, uuid=probed.get("UUID", ""), blank=not probed, mounted=bool(mounts),
        warm_up=warm_up(module) if mounts else "started",
        growable=bool(kind) and size(path) - filesystem_bytes(kind, read(path, 0, 4096)) >= GROWABLE_BYTES,
    )


def wait_for_disk(module):
    """The block device's own path, once one of the volume's names is there."""
    limit = module.params["wait_seconds"]
    deadline = time.monotonic() + limit
    candidates = []
    while not (found := [name for name in candidates if size(name) > 0]):
        if candidates and time.monotonic() >= deadline:
            module.fail_json(msg=missing_disk(module, candidates))
        time.sleep(0.25 if candidates else 0)
        candidates = names(module.params["volume_id"], module.params["device"], serials())
    return os.path.realpath(found[0])


def missing_disk(module, candidates):
    return (
        f"Failed to find the disk of {module.params['volume_id']}: waited {module.params['wait_seconds']} s for "
        f"{' or '.join(candidates)}; disks here: {', '.join(sorted(os.listdir('/sys/block'))) or 'none'}. "
        "Is the volume attached to this instance?"
    )


def serials():
    found = {}
    for path in glob.glob("/sys/block/nvme*/device/serial"):
        with open(path) as file:
            found["/dev/" + path.split("/")[3]] = file.read().strip()
    return found


def size(path):
    """In bytes; 0 for a disk that is not there (its node can be there first)."""
    try:
        with open(path, "rb") as file:
            return file.seek(0, os.SEEK_END)
    except OSError:
        return 0


def read(path, offset, length):
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def probe(module, path):
    """What blkid finds, by reading the disk itself; empty for nothing."""
    code, out, err = module.run_command(["blkid", "-p", "-o", "export", path])
    if code not in (0, 2):
        module.fail_json(msg=f"Failed to read what {path} holds, it is left alone: blkid exits with {code}: {out}{err}")
    return {name: value for name, value in parse_export(out).items() if name != "DEVNAME"}


def refuse_obstacles(module, path, probed, mounts):
    volume, point = module.params["volume_id"], module.params["mount_point"]
    attempt = f"Failed to mount {volume} ({path}) on {point}"
    if obstacle(probed):
        module.fail_json(msg=f"{attempt}: {obstacle(probed)}. It is left as it is.")
    if not probed:
        refuse_blank(module, attempt, path)
    if mounts and point not in mounts:
        module.fail_json(msg=f"{attempt}: it is mounted on {', '.join(mounts)}")
    if not mounts and os.path.ismount(point):
        module.fail_json(msg=f"{attempt}: another file system is mounted there")
    if not mounts and os.path.isdir(point) and os.listdir(point):
        module.fail_json(msg=f"{attempt}: the directory must be empty, got {', '.join(sorted(os.listdir(point))[:5])}")
    refuse_twins(module, attempt, path, probed.get("UUID"))


def refuse_blank(module, attempt, path):
    if not module.params["created_blank"]:
        module.fail_json(
            msg=f"{attempt}: it holds no file system, and only a volume that was created blank for this run gets one. "
            f"If nothing is to be on it, delete {module.params['volume_id']} (playbooks/retire.yml does) and run again"
        )
    for offset in sample_offsets(size(path), SAMPLE_BYTES):
        if read(path, offset, SAMPLE_BYTES).strip(b"\0"):
            module.fail_json(msg=f"{attempt}: it must be blank, got data at byte {offset}. It is left as it is.")


def refuse_twins(module, attempt, path, uuid):
    """Of two disks with one UUID a boot mounts whichever comes first."""
    if not uuid:
        return
    _, out, _ = module.run_command(["blkid", "-c", "/dev/null", "-t", f"UUID={uuid}", "-o", "device"])
    twins = sorted({os.path.realpath(line) for line in out.split()} - {path})
    if twins:
        module.fail_json(
            msg=f"{attempt}: {', '.join(twins)} has the same file system UUID {uuid}; detach one of them, or give it "
            "another UUID (tune2fs -U random, xfs_admin -U generate)"
        )


def mount_points(path):
    """Where the disk is mounted, from the kernel's own table."""
    number = os.stat(path).st_rdev
    device = f"{os.major(number)}:{os.minor(number)}"
    with open("/proc/self/mountinfo") as file:
        fields = [line.split() for line in file]
    return [field[4] for field in fields if field[2] == device]


def warm_up(module):
    """How far the warm-up of the mounted volume is."""
    try:
        with open(module.params["progress"]) as file:
            return warm_up_words(json.load(file), module.params["volume_id"])
    except (OSError, ValueError):
        return "started"


if __name__ == "__main__":
    main()
