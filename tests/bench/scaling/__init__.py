"""What grows with what: ``python -m tests.bench scaling --help``."""

from .main import main

__all__ = ["main"]
