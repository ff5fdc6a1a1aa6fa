"""What goes wrong with a stand-in."""

from __future__ import annotations


class StandinError(Exception):
    """A container could not do what it was asked."""


class NoSuchImageError(StandinError):
    """Nothing here stands in for an image."""

    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"no stand-in for the image {name}" + (f": {hint}" if hint else ""))
