#!/usr/bin/python
"""A run's settings and logs from the second place, on this side."""

import json
import os

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError as error:
    missing = error.name
else:
    missing = None

DOCUMENTATION = """
module: mirrored_logs
short_description: Bring a run's settings and logs from its second place
description:
  - Logs only grow, so the larger one is the newer one; one that is as large here is left alone. Of the settings those
    over there count, for they say where the checkpoints are.
  - Returns C(newest) (the newest checkpoint over there: its C(name) and C(step); empty without any) and C(is_behind)
    (whether this side goes on from another one, or from none), and C(finished_epochs) (of a run that is finished, by
    its newest events, else 0).
options:
  bucket: {type: str, required: true, description: The bucket's name.}
  region: {type: str, required: true, description: Its region.}
  prefix: {type: str, required: true, description: "The run's folder in it, with a / at the end."}
  directory: {type: path, required: true, description: The run's directory on this side.}
  names: {type: list, elements: str, required: true, description: Which of the files are brought.}
author: The authors of this project
"""
OPTIONS = {
    "bucket": {"type": "str", "required": True},
    "region": {"type": "str", "required": True},
    "prefix": {"type": "str", "required": True},
    "directory": {"type": "path", "required": True},
    "names": {"type": "list", "elements": "str", "required": True},
}
NOT_THERE = ("NoSuchBucket", "NoSuchKey", "404")
SETTINGS, EVENTS = "config.toml", "events.jsonl"


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if missing:
        module.fail_json(msg=missing_required_lib(missing))
    where = f"s3://{module.params['bucket']}/{module.params['prefix']}"
    s3 = boto3.session.Session().client("s3", region_name=module.params["region"])
    try:
        module.exit_json(**bring(module, s3))
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        module.fail_json(msg=f"Failed to bring the logs of {where}: {error}")


def bring(module, s3):
    there = sizes(s3, module.params["bucket"], module.params["prefix"])
    known = {name: there[name] for name in module.params["names"] if name in there}
    wanted = [name for name, size in known.items() if is_newer(module.params, s3, name, size)]
    if wanted and not module.check_mode:
        os.makedirs(module.params["directory"], exist_ok=True)
        for name in wanted:
            download(module.params, s3, name)
    newest = newest_checkpoint(module.params, s3)
    here = read_here(module.params["directory"], "LATEST").decode().strip()
    return {
        "changed": bool(wanted), "newest": newest, "is_behind": bool(newest) and newest["name"] != here,
        "finished_epochs": finished_epochs(newest_events(module, s3, wanted)),
    }  # fmt: skip


def is_newer(params, s3, name, size):
    if name == SETTINGS:
        return read_here(params["directory"], name) != read_there(params, s3, name)
    return size > size_here(params["directory"], name)


def newest_checkpoint(params, s3):
    """As trainer/spot/owner.py writes it: the checkpoints that are whole over there, newest first."""
    copies = json.loads(read_there(params, s3, "LATEST") or b"{}").get("copies")
    return {"name": copies[0]["name"], "step": copies[0]["step"]} if copies else {}


def newest_events(module, s3, wanted):
    """In check mode nothing was brought."""
    if module.check_mode and EVENTS in wanted:
        return read_there(module.params, s3, EVENTS)
    return read_here(module.params["directory"], EVENTS)


def finished_epochs(log):
    """As trainer/observe/summary.py judges it: the last start's end, if it has one."""
    epochs, reason = 0, None
    for line in log.splitlines():
        if b'"start"' in line or b'"stop"' in line:
            event = json.loads(line)
            if event.get("kind") == "start":
                epochs, reason = event.get("epochs"), None
            elif event.get("kind") == "stop":
                reason = event.get("reason")
    return epochs if reason == "finished" else 0


def read_there(params, s3, name):
    try:
        return s3.get_object(Bucket=params["bucket"], Key=params["prefix"] + name)["Body"].read()
    except ClientError as error:
        if error.response["Error"]["Code"] in NOT_THERE:
            return b""
        raise


def read_here(directory, name):
    try:
        with open(os.path.join(directory, name), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def sizes(s3, bucket, prefix):
    """By file name, of what lies in the folder itself."""
    try:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        return {one["Key"].removeprefix(prefix): one["Size"] for page in pages for one in page.get("Contents", [])}
    except ClientError as error:
        if error.response["Error"]["Code"] in NOT_THERE:
            return {}
        raise


def size_here(directory, name):
    path = os.path.join(directory, name)
    return os.path.getsize(path) if os.path.exists(path) else -1


def download(params, s3, name):
    path = os.path.join(params["directory"], name)
    s3.download_file(params["bucket"], params["prefix"] + name, path + ".draft")
    os.replace(path + ".draft", path)


if __name__ == "__main__":
    main()
