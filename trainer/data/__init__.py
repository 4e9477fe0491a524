"""Records on disk and the way from them to batches."""

import trainer.numpy_names  # noqa: F401 (before MXNet)
