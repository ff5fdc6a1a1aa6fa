"""What can go wrong with a file or a run: each a line that says what, where and what to do."""

__all__ = ["Refused", "Unclear", "Unreadable"]


class Unreadable(Exception):
    """A file that cannot be read as what it is. It is reported and left alone."""


class Refused(Exception):
    """The run does not start: nothing was changed."""


class Unclear(Exception):
    """Why a rule leaves a place as it is, in words for a marker."""
