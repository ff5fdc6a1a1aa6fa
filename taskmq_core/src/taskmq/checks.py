"""Checks of what callers pass. Each raises `ConfigError` with one line: what is wrong, and what
would be right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from .errors import ConfigError

__all__ = [
    "PRIORITY_MAX",
    "PRIORITY_MIN",
    "Check",
    "boolean",
    "count",
    "limits_in_order",
    "name_of",
    "nearest",
    "not_negative",
    "number",
    "one_of",
    "optional",
    "positive",
    "priority",
    "text",
    "text_map",
]

Check = Callable[[str, object], None]
"""Takes the name of what is checked, for the message, and its value."""

PRIORITY_MIN, PRIORITY_MAX = -9, 9


def nearest(name: str, known: Iterable[str]) -> str:
    """`` did you mean 'x'?`` for the closest of ``known``, or an empty string."""
    import difflib  # only for those who have misspelt something

    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {match[0]!r}?" if match else ""


def optional(check: Check) -> Check:
    """``check``, and ``None`` passes."""

    def checked(name: str, value: object) -> None:
        if value is not None:
            check(name, value)

    return checked


def number(name: str, value: object) -> float:
    """A finite number, which it gives back."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ConfigError(f"{name} must be finite, got {value!r}")
    return value


def positive(name: str, value: object) -> None:
    """Seconds, more than none."""
    if number(name, value) <= 0:
        raise ConfigError(f"{name} must be > 0 seconds, got {value!r}")


def limits_in_order(timeout: float | None, hard_timeout: float | None) -> None:
    """The soft limit has to come before the hard one, or it never would."""
    if timeout is not None and hard_timeout is not None and timeout >= hard_timeout:
        raise ConfigError(
            f"timeout ({timeout:g} s) must be less than hard_timeout ({hard_timeout:g} s): the "
            "task is asked to end before it is killed"
        )


def not_negative(name: str, value: object) -> None:
    """Seconds, or none."""
    if number(name, value) < 0:
        raise ConfigError(f"{name} must be >= 0 seconds, got {value!r}")


def count(name: str, value: object) -> None:
    """A whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number >= 1, got {value!r}")


def priority(name: str, value: object) -> None:
    """A whole number from -9 to 9."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} must be a whole number, got {value!r}")
    if not PRIORITY_MIN <= value <= PRIORITY_MAX:
        raise ConfigError(f"{name} must be between {PRIORITY_MIN} and {PRIORITY_MAX}, got {value}")


def boolean(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, got {value!r}")


def name_of(name: str, value: object) -> None:
    """Text that can name something: not empty, no blanks around it."""
    if not isinstance(value, str) or not value or value != value.strip():
        raise ConfigError(f"{name} must be a name without blanks around it, got {value!r}")


def text(name: str, value: object) -> None:
    """Any text but the empty one."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be a non-empty str, got {value!r}")


def text_map(name: str, value: object) -> None:
    """A mapping from text to text."""
    if not isinstance(value, Mapping) or not all(
        isinstance(part, str) for item in value.items() for part in item
    ):
        raise ConfigError(f"{name} must be a dict of str to str, got {value!r}")


def one_of(*choices: str) -> Check:
    def check(name: str, value: object) -> None:
        if value not in choices:
            hint = nearest(str(value), choices)
            raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {value!r}{hint}")

    return check
