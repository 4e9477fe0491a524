"""The network and its training. With `trainer.data`, the only place that imports MXNet."""

import numpy

# Python 3.12 has no numpy older than 1.26, which lacks this name; MXNet 1.9.1 asks for it when it is imported.
if "bool" not in vars(numpy):
    numpy.bool = bool
