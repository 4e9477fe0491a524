"""The monitor as a server: the live page, its events and /metrics, for people and Prometheus. Training knows nothing of
it; it reads the run's directory, and several may do so."""

from trainer.observe.serve.place import Place, place
from trainer.observe.serve.server import serve

__all__ = ["Place", "place", "serve"]
