"""The network and its training. With `trainer.data`, the only place that imports MXNet."""
