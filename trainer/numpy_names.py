"""Must be imported before MXNet: gives numpy a name back that MXNet 1.9.1 asks for.

Python 3.12 has no numpy older than 1.26, and numpy 1.24 took the name away.
"""

import numpy

if "bool" not in vars(numpy):
    numpy.bool = bool
