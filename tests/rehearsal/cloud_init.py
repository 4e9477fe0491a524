"""What cloud-init does at the first boot of a Debian image, done to a host's file system before it boots."""

from pathlib import Path
from typing import Any

import yaml
from network import call

USER = "admin"


def first_boot(root: Path, user_data: str, login_key: str) -> None:
    """Keys, files and units as the user data says, and a user who may do everything, with the key of the launch.

    The user may be there: an image that was made from a host has it.
    """
    _make_user(root, login_key)
    if user_data:
        config = _cloud_config(user_data)
        _set_host_keys(root / "etc/ssh", config)
        _write_files(root, config)
        _enable_units(root, config)


def _make_user(root: Path, login_key: str) -> None:
    if not (root / f"home/{USER}").exists():
        call("chroot", str(root), "useradd", "--create-home", "--shell", "/bin/bash", USER)
    sudoers = root / "etc/sudoers.d/90-cloud-init-users"
    sudoers.write_text(f"{USER} ALL=(ALL) NOPASSWD:ALL\n")
    sudoers.chmod(0o440)
    keys = root / f"home/{USER}/.ssh/authorized_keys"
    keys.parent.mkdir(mode=0o700, exist_ok=True)
    keys.write_text(f"{login_key}\n")
    call("chroot", str(root), "chown", "-R", f"{USER}:{USER}", f"/home/{USER}/.ssh")


def _cloud_config(user_data: str) -> dict[str, Any]:
    if not user_data.startswith("#cloud-config\n"):
        raise ValueError(f"user data must begin with #cloud-config, got {user_data[:40]!r}")
    config = yaml.safe_load(user_data)
    if unknown := set(config) - {"ssh_keys", "ssh_deletekeys", "write_files", "runcmd"}:
        raise ValueError(f"user data that no host of the rehearsal acts on: {', '.join(sorted(unknown))}")
    return dict(config)


def _set_host_keys(folder: Path, config: dict[str, Any]) -> None:
    if config.get("ssh_deletekeys", True):
        for path in folder.glob("ssh_host_*key*"):
            path.unlink()
    for name, text in config.get("ssh_keys", {}).items():
        kind, _, half = name.partition("_")
        path = folder / f"ssh_host_{kind}_key{'.pub' if half == 'public' else ''}"
        path.write_text(text if text.endswith("\n") else f"{text}\n")
        path.chmod(0o644 if half == "public" else 0o600)


def _write_files(root: Path, config: dict[str, Any]) -> None:
    for file in config.get("write_files", []):
        (root / file["path"].lstrip("/")).write_text(file["content"])


def _enable_units(root: Path, config: dict[str, Any]) -> None:
    """The boot that follows starts them."""
    for command in config.get("runcmd", []):
        if command[:3] != ["systemctl", "enable", "--now"]:
            raise ValueError(f"a command of user data that no host of the rehearsal runs: {command}")
        call("chroot", str(root), "systemctl", "enable", *command[3:])
