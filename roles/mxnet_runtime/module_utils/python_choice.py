"""Which Python of a machine MXNet 1.9.1 can run on."""

import subprocess

# In order of preference: on 3.11 MXNet needs no workaround; for 3.13 there is no numpy that it can use.
CANDIDATES = (
    "python3.11",
    "python3.12",
    "python3",
    "/usr/bin/python3.11",
    "/usr/bin/python3.12",
    "/usr/bin/python3",
)
VERSIONS = ("3.11", "3.12")
_PROBE = (
    "import sys, importlib.util as u; "
    "print('%d.%d' % sys.version_info[:2], sys.executable, all(map(u.find_spec, ('venv', 'ensurepip'))), sep='\\n')"
)


def probe(name):
    """{"name", "version", "path", "has_venv"} of an interpreter; None when there is no such one that runs."""
    try:
        done = subprocess.run([name, "-I", "-c", _PROBE], capture_output=True, text=True, check=False)
    except OSError:
        return None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) != 3:
        return None
    return {"name": name, "version": lines[0], "path": lines[1], "has_venv": lines[2] == "True"}


def choose(probes):
    """The first usable interpreter, preferably one that can make virtual environments; None when none is usable."""
    usable = [found for found in probes if found and found["version"] in VERSIONS]
    return next((found for found in usable if found["has_venv"]), usable[0] if usable else None)


def describe(probes):
    """What was found where, for the message when nothing is usable."""
    names = [f"{name} ({found['version'] if found else 'not there'})" for name, found in zip(CANDIDATES, probes)]
    return ", ".join(names)
