"""The components of Debian that the driver is in and a machine's own sources leave out: pure functions."""

import re

COMPONENTS = "contrib non-free non-free-firmware"
# What apt-get says of each of Debian's suites that the machine reads, for source_lines().
TARGETS = [
    "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(SOURCESENTRY)", "Created-By: Packages",
    "Origin: Debian", "Component: main",
]


def has_all(policy):
    """Whether each package that `apt-cache policy` was asked for can be installed; `policy` is {name: its answer}."""
    return all(re.search(r"Candidate: (?!\(none\))", answer) for answer in policy.values())


def source_lines(targets, read):
    """Lines of a sources.list with those components, from the machine's own mirrors and with the same keys.

    `targets`: lines of TARGETS' output. `read(path)` gives the text of a file of sources.
    """
    lines = []
    for target in targets:
        uri, suite, entry = target.split(" ", 2)
        path, _, number = entry.rpartition(":")
        key = signed_by(path, read(path), int(number))
        lines.append(f"deb {f'[signed-by={key}] ' if key else ''}{uri} {suite} {COMPONENTS}")
    return list(dict.fromkeys(lines))


def signed_by(path, text, number):
    """The key file that an entry names, or nothing: a line of a .list, a paragraph of a .sources; the first is 1."""
    if path.endswith(".sources"):
        entries, name = re.split(r"\n(?:[ \t]*\n)+", text.strip()), r"^signed-by:[ \t]*"
    else:
        entries, name = text.splitlines(), r"\bsigned-by="
    entry = entries[number - 1] if number <= len(entries) else ""
    found = re.search(rf"{name}([^\s\]]+)", entry, re.IGNORECASE | re.MULTILINE)
    return found.group(1) if found else ""
