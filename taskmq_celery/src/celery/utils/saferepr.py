"""Text of a value that is never long, never deep and never fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ("saferepr",)

BRACKETS: tuple[tuple[Any, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (frozenset, "frozenset({", "})"),
    (set, "{", "}"),
)
PLAIN = (int, float, bool, type(None))


def saferepr(
    o: Any, maxlen: int | None = None, maxlevels: int = 3, seen: set[int] | None = None
) -> str:
    """``repr(o)``, cut off after about ``maxlen`` characters and ``maxlevels`` levels.

    >>> saferepr([1, [2, [3, [4]]]])
    '[1, [2, [3, [...]]]]'
    """
    if type(o) in PLAIN or (
        type(o) is str and (maxlen is None or len(o) < maxlen) and "\\" not in o
    ):
        return repr(o)
    return _Writer(maxlen, maxlevels, seen or set()).write(o)


class _Writer:
    """Writes one value; ``left`` is how many characters may still come."""

    def __init__(self, maxlen: int | None, maxlevels: int, seen: set[int]) -> None:
        self.left = maxlen
        self.deepest = maxlevels
        self.seen = seen
        self.parts: list[str] = []

    def write(self, value: Any) -> str:
        self._value(value, 0)
        return "".join(self.parts)

    @property
    def is_full(self) -> bool:
        return self.left is not None and self.left <= 0

    def _put(self, text: str, *, counts: bool = True) -> None:
        self.parts.append(text)
        if counts and self.left is not None:
            self.left -= len(text)

    def _value(self, value: Any, level: int) -> None:
        if isinstance(value, dict):
            self._nested(value, level, "{", "}", value.items())
            return
        for kind, opening, closing in BRACKETS:
            if isinstance(value, kind):
                if not value:
                    self._put(repr(value) if kind in (set, frozenset) else f"{opening}{closing}")
                    return
                if kind in (set, frozenset) and type(value) is not kind:
                    opening, closing = f"{type(value).__name__}({{", "})"
                end = f",{closing}" if kind is tuple and len(value) == 1 else closing
                self._nested(value, level, opening, end, value)
                return
        self._scalar(value)

    def _nested(
        self, value: Any, level: int, opening: str, closing: str, items: Iterable[Any]
    ) -> None:
        if id(value) in self.seen:
            self._put(f"<Recursion on {type(value).__name__} with id={id(value)}>")
            return
        self.seen.add(id(value))
        self._put(opening)
        if level >= self.deepest and value:
            self._put("...")
        else:
            self._items(value, items, level)
        self._put(closing, counts=False)
        self.seen.discard(id(value))

    def _items(self, value: Any, items: Iterable[Any], level: int) -> None:
        for place, item in enumerate(items):
            if place:
                self._put(", ")
            if self.is_full:
                self._put("...", counts=False)
                return
            if isinstance(value, dict):
                key, item = item  # the pair is what items() gives
                self._scalar(key)
                self._put(": ")
            self._value(item, level + 1)

    def _scalar(self, value: Any) -> None:
        if isinstance(value, bytes):
            self._bytes(value)
            return
        if isinstance(value, str) and self.left is not None and len(value) > self.left:
            text = repr(value[: max(self.left, 0)])
            self._put(f"{text[:-1]}...{text[-1]}")
            return
        try:
            text = repr(value)
        except Exception as error:
            text = f"<Unrepresentable {type(value)!r}{id(value):#x}: {error!r}>"
        if self.left is not None and len(text) > self.left:
            self._put(f"{text[: max(self.left, 0)]}...")
        else:
            self._put(text)

    def _bytes(self, value: bytes) -> None:
        """As text if they are text, else in hexadecimal."""
        left = len(value) if self.left is None else max(self.left, 0)
        dots = "..." if left < len(value) else ""
        try:
            text = value[:left].decode(errors="strict" if not dots else "ignore")
            if dots:
                value.decode()
        except UnicodeDecodeError:
            text = value.hex()
            dots = "..." if left < len(text) else ""
        self._put(f"b'{text[:left] if dots else text}{dots}'")
