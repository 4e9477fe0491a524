"""Looks at runs: events, machine samples, reports. Imports neither MXNet nor `trainer.learn`."""
