"""What a person is told in one line."""

from __future__ import annotations


class Problem(Exception):
    """The command cannot go on; the message is the one line that its user reads."""
