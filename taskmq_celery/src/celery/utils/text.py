"""Functions about text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = (
    "abbr",
    "abbrtask",
    "indent",
    "join",
    "pluralize",
    "simple_format",
    "str_to_list",
    "truncate",
)


def str_to_list(s: Any) -> Any:
    """``"a, b"`` as a list; anything but text as it is."""
    return [part.strip() for part in s.split(",")] if isinstance(s, str) else s


def join(lines: Iterable[str], sep: str = "\n") -> str:
    """The lines that are not empty, joined."""
    return sep.join(line for line in lines if line)


def truncate(s: str, maxlen: int = 128, suffix: str = "...") -> str:
    """At most ``maxlen`` characters; what is cut off is marked."""
    if not maxlen or len(s) <= maxlen:
        return s
    head, space, _ = s[:maxlen].rpartition(" ")
    return (head if space else s[:maxlen]) + suffix


def abbr(s: str | None, max: int, dots: str | bool = "...") -> str:
    """At most ``max`` characters, the last ones being dots if something was cut off."""
    if s is None:
        return "???"
    if len(s) <= max:
        return s
    return s[: max - len(dots)] + dots if isinstance(dots, str) else s[:max]


def abbrtask(s: str | None, max: int) -> str:
    """A shortened task name; of a long module, only a part is left."""
    if s is None:
        return "???"
    if len(s) <= max:
        return s
    module, _, name = s.rpartition(".")
    return f"{abbr(module, max - len(name) - len('[.]'), dots='')}[.]{name}"


def indent(t: str, indent: int = 0, sep: str = "\n") -> str:
    """Every line moved to the right."""
    return sep.join(" " * indent + line for line in t.split(sep))


def pluralize(n: float, text: str, suffix: str = "s") -> str:
    """``text``, with ``suffix`` unless there is one."""
    return text + suffix if n != 1 else text


def simple_format(s: str, keys: Mapping[str, Any], escape: str = "%") -> str:
    """Replace ``%x`` by the value of ``x`` (a function is called), and ``%%`` by ``%``.

    Raises ``ValueError`` for a letter that is not in ``keys``.
    """
    known = {escape: escape, **keys}
    parts: list[str] = []
    rest = iter(s)
    for character in rest:
        if character != escape:
            parts.append(character)
            continue
        name = next(rest, "")
        if name not in known:
            raise ValueError(f"Unknown format {escape}{name} in string {s!r}.")
        value = known[name]
        parts.append(str(value() if callable(value) else value))
    return "".join(parts)
