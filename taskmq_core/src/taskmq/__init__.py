"""A task queue whose promises can be checked."""

__version__ = "0.2.0"
