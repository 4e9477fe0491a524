"""The shared libraries that MXNet's wheel expects of the system, and the Debian packages that hold them.

Run as a script it prints the packages that are missing, one a line.
"""

import ctypes

PACKAGES = {"libgomp.so.1": "libgomp1", "libquadmath.so.0": "libquadmath0", "libstdc++.so.6": "libstdc++6"}


def missing_packages(packages=PACKAGES):
    """The Debian packages of those libraries that the loader does not find."""
    return [package for library, package in packages.items() if not _loads(library)]


def _loads(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    for name in missing_packages():
        print(name)
