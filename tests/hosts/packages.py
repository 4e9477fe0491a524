"""A package source of a test's own in a host: what is installed is small, apt and dpkg are the real ones."""

import hashlib
import subprocess
from pathlib import Path

SOURCE = "opt/packages"


def publish(host, folder: Path, packages: dict[str, dict], version: int = 9999) -> None:
    """Each package by name: {"files": {path: text}, "postinst": shell text}; newer than any that Debian has."""
    source = host.root / SOURCE
    source.mkdir(parents=True, exist_ok=True)
    index = ""
    for name, content in packages.items():
        built = build(folder / name, name, version, **content)
        (source / built.name).write_bytes(built.read_bytes())
        index += control(name, version) + (
            f"Filename: ./{built.name}\nSize: {built.stat().st_size}\n"
            f"SHA256: {hashlib.sha256(built.read_bytes()).hexdigest()}\n\n"
        )
    (source / "Packages").write_text(index)
    (host.root / "etc/apt/sources.list.d/test.list").write_text(f"deb [trusted=yes] file:/{SOURCE} ./\n")
    host.run("apt-get -q update", timeout_seconds=300)


def build(tree: Path, name: str, version: int, files=None, postinst: str = "") -> Path:
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(control(name, version))
    for path, text in (files or {}).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
        (tree / path).chmod(0o755)
    if postinst:
        (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\n{postinst}\n")
        (tree / "DEBIAN/postinst").chmod(0o755)
    built = tree.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(tree), str(built)], check=True, capture_output=True)
    return built


def control(name: str, version: int) -> str:
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: The tests <tests@example.invalid>\n"
        f"Description: stands for {name}\n"
    )
