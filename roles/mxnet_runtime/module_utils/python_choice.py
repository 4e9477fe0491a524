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
# Debian keeps ensurepip in a package of its own.
_PROBE = """
import sys
try:
    import venv
    from ensurepip import bootstrap
    has_venv = True
except ImportError:
    has_venv = False
print("%d.%d" % sys.version_info[:2], sys.executable, has_venv, sep="\\n")
"""


def probe(name):
    """{"version", "path", "has_venv"} of an interpreter; None when there is no such one that runs."""
    try:
        done = subprocess.run([name, "-I", "-c", _PROBE], capture_output=True, text=True, check=False)
    except OSError:
        return None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) != 3:
        return None
    return {"version": lines[0], "path": lines[1], "has_venv": lines[2] == "True"}


def choose(names, probe=probe):
    """The first usable interpreter, preferably one that can make virtual environments, and what each name gave.

    The interpreter is None when none is usable; names after a good one are not tried.
    """
    probes = {}
    for name in names:
        found = probes[name] = probe(name)
        if is_usable(found) and found["has_venv"]:
            return found, probes
    return next(filter(is_usable, probes.values()), None), probes


def is_usable(found):
    return found is not None and found["version"] in VERSIONS


def describe(probes):
    """What was found where, for the message when nothing is usable."""
    return ", ".join(f"{name} ({found['version'] if found else 'not there'})" for name, found in probes.items())
