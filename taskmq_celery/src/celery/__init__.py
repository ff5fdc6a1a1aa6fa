"""Celery's API on the taskmq engine."""

from importlib import metadata

try:
    # Agrees with what other packages' requirements were compared with when they were installed.
    __version__ = metadata.version("celery")
except metadata.PackageNotFoundError:
    __version__ = "5.6.3+taskmq"
