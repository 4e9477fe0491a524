#!/usr/bin/python3
"""s3_fetch.py s3://BUCKET/PREFIX DIRECTORY: brings the objects below a prefix; goes on where an earlier try ended.

A file has its final name, and its object's time, once it is whole. Prints {"changed", "files", "bytes"}.
"""

import json
import os
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

THREADS = 8
PIECE_BYTES = 1 << 20
SECONDS_BETWEEN_LINES = 3.0
MISSING, NO_ROOM = 66, 74  # the trainer's exit codes


class Refused(Exception):
    """The exit code, and what cannot be done in words."""


def main(url, directory):
    s3 = boto3.client("s3", config=Config(retries={"mode": "standard", "total_max_attempts": 8}))
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    objects = listed(s3, bucket, prefix, directory)
    if not objects:
        raise Refused(MISSING, f"{url} must hold files, holds none")
    wanted = [one for one in objects if not is_there(one)]
    shown = Progress(check_room(wanted, directory))
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda one: fetch(s3, bucket, one, shown), wanted))
    return {"changed": bool(wanted), "files": len(objects), "bytes": sum(one["size"] for one in objects)}


def listed(s3, bucket, prefix, directory):
    """{"key", "path", "size", "mtime", "etag"} of each object; a prefix is a folder, whether or not it ends in /."""
    folder = prefix.rstrip("/") + "/" if prefix.strip("/") else ""
    objects = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=folder):
        for row in page.get("Contents", []):
            name = row["Key"].removeprefix(folder)
            if not name or name.endswith("/"):
                continue
            if name.startswith("/") or ".." in name.split("/"):
                raise Refused(MISSING, f"s3://{bucket}/{row['Key']}: a name that leads out of the folder")
            objects.append({
                "key": row["Key"], "path": os.path.join(directory, name), "size": row["Size"],
                "mtime": int(row["LastModified"].timestamp()), "etag": row["ETag"],
            })  # fmt: skip
    return objects


def is_there(one):
    try:
        status = os.stat(one["path"])
    except OSError:
        return False
    return status.st_size == one["size"] and int(status.st_mtime) == one["mtime"]


def check_room(wanted, directory):
    """The bytes that are to be fetched."""
    os.makedirs(directory, exist_ok=True)
    needed = sum(one["size"] - size(partial(one)) for one in wanted)
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise Refused(NO_ROOM, f"{directory}: fetching needs {needed / 1e6:,.0f} MB free, got {free / 1e6:,.0f} MB")
    return needed


def partial(one):
    """The name of an unfinished file: of this version of the object only."""
    folder, name = os.path.split(one["path"])
    return os.path.join(folder, f".{name}.{one['etag'].strip(chr(34))}.partial")


def size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def fetch(s3, bucket, one, shown):
    """A connection that breaks is made again as long as it brings something."""
    path = partial(one)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "ab").close()
    while (before := size(path)) < one["size"]:
        try:
            append(s3, bucket, one, shown)
        except BotoCoreError:
            if size(path) == before:
                raise
    if size(path) != one["size"]:
        raise Refused(MISSING, f"s3://{bucket}/{one['key']}: must have {one['size']} bytes, got {size(path)}")
    os.utime(path, (one["mtime"], one["mtime"]))
    os.replace(path, one["path"])


def append(s3, bucket, one, shown):
    with open(partial(one), "ab", buffering=0) as file:
        answer = s3.get_object(Bucket=bucket, Key=one["key"], Range=f"bytes={file.tell()}-", IfMatch=one["etag"])
        try:
            for piece in answer["Body"].iter_chunks(PIECE_BYTES):
                file.write(piece)
                shown.add(len(piece))
        finally:
            os.fsync(file.fileno())


class Progress:
    """A line on stderr every few seconds; counts from several threads."""

    def __init__(self, total):
        self._total, self._done, self._begun = total, 0, time.monotonic()
        self._shown, self._lock = self._begun, threading.Lock()

    def add(self, count):
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now - self._shown < SECONDS_BETWEEN_LINES:
                return
            self._shown, speed = now, self._done / (now - self._begun)
            left = (self._total - self._done) / max(speed, 1)
            print(
                f"fetching: {self._done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB, {speed / 1e6:,.0f} MB/s, "
                f"{left:,.0f} s left", file=sys.stderr, flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    try:
        print(json.dumps(main(*sys.argv[1:])))
    except Refused as error:
        print(f"error: {error.args[1]}", file=sys.stderr)
        sys.exit(error.args[0])
    except (BotoCoreError, ClientError, OSError) as error:
        print(f"error: Failed to fetch {sys.argv[1]}: {error}", file=sys.stderr)
        sys.exit(NO_ROOM if isinstance(error, OSError) else MISSING)
