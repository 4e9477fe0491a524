"""Playbooks against the double, as a user calls them with inventory/aws."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]


def playbook(name: str, settings: dict, folder: Path, *options: str, **more: str) -> subprocess.CompletedProcess:
    """Plays it to its end, at most an hour. `settings` count more than the inventory's; runs lie in folder/run."""
    return subprocess.run(
        command(name, settings, folder, *options), cwd=folder, env=environment(**more), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=3600, check=False,
    )  # fmt: skip


def command(name: str, settings: dict, folder: Path, *options: str) -> list[str]:
    file = folder / "settings.json"
    file.write_text(json.dumps(settings | {"checkout": str(folder)}))
    program = Path(sys.executable).with_name("ansible-playbook")
    inventory = PROJECT / "inventory/aws"
    return [str(program), str(PROJECT / "playbooks" / name), "-i", str(inventory), "-e", f"@{file}", *options]


def environment(**more: str) -> dict[str, str]:
    own = {"ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
    return os.environ | own | more


def credentials(endpoint: str) -> dict[str, str]:
    """What makes a process meet the double, and it alone."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "double",
        "AWS_SECRET_ACCESS_KEY": "double",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def control(endpoint: str, action: str) -> Any:
    """What the double says of itself: state, bill, calls."""
    with urllib.request.urlopen(f"{endpoint}/double/{action}", timeout=60) as answer:
        return json.load(answer)
