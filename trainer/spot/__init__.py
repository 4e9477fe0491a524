"""Requests to stop, wherever they come from. Imports neither MXNet nor `trainer.learn`."""
