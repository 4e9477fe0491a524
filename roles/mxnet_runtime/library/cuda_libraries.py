#!/usr/bin/python
"""A folder of libraries that no package index has: filled from an archive, if there is one, and looked through."""

import hashlib
import os
import shutil
import tarfile
import time
from urllib.error import URLError
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.training import refuse_training
from ansible.module_utils.urls import open_url

DOCUMENTATION = """
module: cuda_libraries
short_description: Have a folder of shared libraries
description:
  - With C(url) the folder is what that archive holds; without it, what somebody has put there.
  - Nothing of an archive is unpacked before its hash is right, and the folder is replaced as a whole.
options:
  path: {type: path, required: true, description: The folder.}
  names: {type: list, elements: str, required: true, description: Libraries that must be in it.}
  url: {type: str, default: "", description: Where a tar archive of them is; empty for none.}
  sha256: {type: str, default: "", description: The archive's SHA-256.}
author: The authors of this project
"""
BLOCK_BYTES = 1 << 20
STALL_SECONDS = 60
TRIES, PAUSE_SECONDS = 3, 5


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True}, "names": {"type": "list", "elements": "str", "required": True},
            # Whoever may read a private archive is often said in its address.
            "url": {"type": "str", "default": "", "no_log": True}, "sha256": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    is_old = bool(module.params["url"]) and read(f"{path}/.sha256") != module.params["sha256"]
    if is_old and not module.check_mode:
        refuse_training(module, f"replace the libraries in {path}")
        os.umask(0o022)  # another user than root loads them
        fill(module)
    missing = [name for name in module.params["names"] if not os.path.exists(f"{path}/{name}")]
    if missing and not (is_old and module.check_mode):
        module.fail_json(msg=f"Failed to find libraries in {path}: it lacks {', '.join(missing)}")
    module.exit_json(changed=is_old)


def fill(module):
    """What is made beside the folder takes its place at the end, so that a half one is never looked at."""
    path, url = module.params["path"], urlsplit(module.params["url"])
    archive, part = f"{path}.tar", f"{path}.part"
    refuse_other_things(module)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.rmtree(part, ignore_errors=True)  # what an interrupted run left, or nothing
        fetch(module, archive)
        with tarfile.open(archive) as tar:
            # Debian 12's Python may be older than the filter.
            tar.extractall(part, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        with open(f"{part}/.sha256", "w") as file:
            file.write(module.params["sha256"])
        lacking = [name for name in module.params["names"] if not os.path.exists(f"{part}/{name}")]
        if lacking:
            raise ValueError(f"the archive lacks {', '.join(lacking)} at its top")
        shutil.rmtree(path, ignore_errors=True)  # may not be there; what cannot go makes the rename fail
        os.rename(part, path)
    except (OSError, ValueError, URLError, tarfile.TarError) as error:
        free_mb = shutil.disk_usage(os.path.dirname(path)).free >> 20
        where = f"{url.hostname or ''}{url.path}"
        module.fail_json(msg=f"Failed to fill {path} ({free_mb} MB free there) from {where}: {error}")
    finally:
        shutil.rmtree(part, ignore_errors=True)  # gone already where it took the folder's place
        if os.path.exists(archive):
            os.remove(archive)


def refuse_other_things(module):
    """The folder is replaced, so it must be nobody's."""
    path = module.params["path"]
    holds_something = os.path.lexists(path) and (not os.path.isdir(path) or os.listdir(path))
    if holds_something and not read(f"{path}/.sha256"):
        module.fail_json(
            msg=f"Failed to fill {path} from an archive: it is replaced as a whole, so it must be empty or of an "
            "earlier archive; it holds something else"
        )


def fetch(module, archive):
    """A server may fail once, and a long transfer break off."""
    for left in reversed(range(TRIES)):
        try:
            download(module, archive)
            break
        except (URLError, ConnectionError, TimeoutError):
            if not left:
                raise
            time.sleep(PAUSE_SECONDS)


def download(module, archive):
    digest = hashlib.sha256()
    with open_url(module.params["url"], timeout=STALL_SECONDS) as answer, open(archive, "wb") as file:
        while block := answer.read(BLOCK_BYTES):
            digest.update(block)
            file.write(block)
        size_bytes = answer.headers.get("Content-Length")
        if size_bytes and file.tell() < int(size_bytes):
            raise ConnectionError(f"it broke off after {file.tell()} of {size_bytes} bytes")
    if digest.hexdigest() != module.params["sha256"]:
        raise ValueError(f"its SHA-256 is {digest.hexdigest()}, not {module.params['sha256']}")


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
