"""The whole story on one machine: instances of the double of AWS that are real hosts, with their volumes as disks."""

import sys
from pathlib import Path

# The hosts' own modules (host, image, layers) import each other by these names.
sys.path.append(str(Path(__file__).parents[1] / "hosts"))
