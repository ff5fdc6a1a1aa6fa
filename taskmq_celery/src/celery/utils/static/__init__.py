"""Files that come with the package."""

from __future__ import annotations

from pathlib import Path

__all__ = ("get_file",)


def get_file(*args: str) -> str:
    """The path of such a file."""
    return str(Path(__file__).resolve().parent.joinpath(*args))
