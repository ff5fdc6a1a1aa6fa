"""What takes a worker's messages in."""

from __future__ import annotations

from .consumer import Consumer

__all__ = ("Consumer",)
