"""The network and its training. With `trainer.data`, the only place that imports MXNet."""

import trainer.numpy_names  # noqa: F401 (before MXNet)
