"""Functions about text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pprint import pformat
from textwrap import fill
from typing import Any

__all__ = (
    "abbr",
    "abbrtask",
    "dedent",
    "dedent_initial",
    "ensure_newlines",
    "ensure_sep",
    "fill_paragraphs",
    "indent",
    "join",
    "pluralize",
    "pretty",
    "simple_format",
    "str_to_list",
    "truncate",
)


def str_to_list(s: Any) -> Any:
    """``"a, b"`` as a list; anything but text as it is."""
    return [part.strip() for part in s.split(",")] if isinstance(s, str) else s


def join(l: Iterable[str], sep: str = "\n") -> str:  # noqa: E741  # Celery's name
    """The lines that are not empty, joined."""
    return sep.join(line for line in l if line)


def truncate(s: str, maxlen: int = 128, suffix: str = "...") -> str:
    """At most ``maxlen`` characters; what is cut off is marked."""
    if not maxlen or len(s) <= maxlen:
        return s
    head, space, _ = s[:maxlen].rpartition(" ")
    return (head if space else s[:maxlen]) + suffix


def abbr(S: str | None, max: int, ellipsis: str | bool = "...") -> str:  # noqa: N803  # Celery's
    """At most ``max`` characters, the last ones being dots if something was cut off."""
    if S is None:
        return "???"
    if len(S) <= max:
        return S
    return S[: max - len(ellipsis)] + ellipsis if isinstance(ellipsis, str) else S[:max]


def abbrtask(S: str | None, max: int) -> str:  # noqa: N803  # Celery's name
    """A shortened task name; of a long module, only a part is left."""
    if S is None:
        return "???"
    if len(S) <= max:
        return S
    module, _, name = S.rpartition(".")
    return f"{abbr(module, max - len(name) - len('[.]'), ellipsis='')}[.]{name}"


def indent(t: str, indent: int = 0, sep: str = "\n") -> str:
    """Every line moved to the right."""
    return sep.join(" " * indent + line for line in t.split(sep))


def pluralize(n: float, text: str, suffix: str = "s") -> str:
    """``text``, with ``suffix`` unless there is one."""
    return text + suffix if n != 1 else text


RE_FORMAT = re.compile(r"%([%\w])")


def simple_format(
    s: str,
    keys: Mapping[str, Any],
    pattern: re.Pattern[str] = RE_FORMAT,
    expand: str = r"\1",
) -> str:
    """Replace ``%x`` by the value of ``x`` (a function is called), and ``%%`` by ``%``.

    ``pattern`` is what is replaced, ``expand`` what of it is the name. Raises ``ValueError`` for a
    name that is not in ``keys``.
    """
    known = {"%": "%", **keys}

    def value_of(found: re.Match[str]) -> str:
        name = found.expand(expand)
        if name not in known:
            raise ValueError(f"Unknown format {found[0]} in string {s!r}.")
        value = known[name]
        return str(value() if callable(value) else value)

    return pattern.sub(value_of, s)


def dedent_initial(s: str, n: int = 4) -> str:
    """Without the first ``n`` spaces, if the text begins with as many."""
    return s[n:] if s[:n] == " " * n else s


def dedent(s: str, sep: str = "\n") -> str:
    """Every line without four spaces at its beginning."""
    return sep.join(dedent_initial(line) for line in s.splitlines())


def fill_paragraphs(s: str, width: int, sep: str = "\n") -> str:
    """Every line broken where it is too long."""
    return sep.join(fill(paragraph, width) for paragraph in s.split(sep))


def ensure_sep(sep: str, s: str, n: int = 2) -> str:
    """With ``sep`` at the end, at least ``n`` times in the whole text."""
    return s + sep * (n - s.count(sep))


ensure_newlines = partial(ensure_sep, "\n")


def pretty(value: Any, width: int = 80, nl_width: int = 80, sep: str = "\n", **kw: Any) -> str:
    """A value for people, over several lines if it is long."""
    if isinstance(value, dict):
        return f"{{{sep} {pformat(value, 4, nl_width)[1:]}"
    if isinstance(value, tuple):
        return f"{sep}{' ' * 4}{pformat(value, width=nl_width, **kw)}"
    return pformat(value, width=width, **kw)


def match_case(s: str, other: str) -> str:
    """``s`` in the case of ``other``."""
    return s.upper() if other.isupper() else s.lower()


def remove_repeating(substr: str, s: str) -> str:
    """``s`` with only the first of several ``substr``."""
    head, found, tail = s.partition(substr)
    return head + found + tail.replace(substr, "")


def remove_repeating_from_task(task_name: str, s: str) -> str:
    """``s`` with the module of a task named only once: ``tasks.add(2), mul(3)``."""
    module = task_name.rpartition(".")[0]
    if not module:
        return s
    # Not where it is the end of another module's name.
    prefix = re.compile(rf"(?<![\w.-]){re.escape(module)}\.")
    first = prefix.search(s)
    if first is None:
        return s
    return s[: first.end()] + prefix.sub("", s[first.end() :])


class WhateverIO(io.StringIO):
    """Text in memory that takes bytes as well."""

    def __init__(self, v: str | bytes | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(_text(v) if v is not None else None, *args, **kwargs)

    def write(self, data: str | bytes) -> int:
        return super().write(_text(data))


def _text(data: str | bytes) -> str:
    return data.decode() if isinstance(data, bytes) else data
