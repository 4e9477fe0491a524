"""Trains image classifiers on rented GPUs: fast, cheap, hard to kill and honest about its numbers."""

__version__ = "0.2.0"
