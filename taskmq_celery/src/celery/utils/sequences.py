"""Sequences that come from somewhere: made as they are asked for, and kept."""

from __future__ import annotations

import time
from collections import UserList
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

__all__ = ("is_concrete", "regen")


def regen(it: Any) -> Any:
    """``it`` if it is a list or tuple; otherwise a list that takes items from it when they are
    asked for, each once.

    >>> numbers = regen(i * i for i in range(3))
    >>> numbers[1], list(numbers), list(numbers)
    (1, [0, 1, 4], [0, 1, 4])
    """
    return it if isinstance(it, (list, tuple)) else _regen(it)


def is_concrete(items: Any) -> bool:
    """Whether looking at all of ``items`` runs nobody's generator."""
    return not isinstance(items, _regen) or items.is_done


class _regen(UserList[Any], list[Any]):  # type: ignore[misc]  # noqa: N801  # Celery's name
    """What `regen` gives for a generator. A list for `isinstance`, and for JSON.

    It knows one item more than it was asked for, if that can be, so as to know whether there are
    more.
    """

    def __init__(self, it: Iterable[Any]) -> None:
        self._source = it
        self._iterator: Iterator[Any] | None = None
        self._known: list[Any] = []
        self._functions: list[Callable[[Any], Any]] = []
        self._spent = 0.0
        self.paced_by: _regen | None = None
        """What its own items are made from, if that is one of these too."""
        self.__done = False

    @property
    def is_done(self) -> bool:
        """Whether every item has been taken from the source."""
        return self.__done

    @property
    def pace(self) -> float:
        """Seconds that the source took for an item so far."""
        behind = 0.0 if self.paced_by is None else self.paced_by.pace
        return max(behind, self._spent / (len(self._known) or 1))

    def map(self, func: Callable[[Any], Any]) -> None:
        """Replace every item, those to come too, by ``func(item)``."""
        self._known[:] = [func(each) for each in self._known]
        self._functions.append(func)

    def _take(self) -> bool:
        """Take one more; whether there was one."""
        if self.__done:
            return False
        if self._iterator is None:
            self._iterator = iter(self._source)
        started = time.monotonic()
        try:
            item = next(self._iterator)
        except StopIteration:
            self.__done = True
            return False
        finally:
            self._spent += time.monotonic() - started
        for function in self._functions:
            item = function(item)
        self._known.append(item)
        return True

    def know(self, count: int) -> None:
        """Take until ``count`` are known."""
        while len(self._known) < count and self._take():
            pass

    @property
    def data(self) -> list[Any]:  # type: ignore[override]  # the list of a UserList
        """All of them."""
        while self._take():
            pass
        return self._known

    def __iter__(self) -> Iterator[Any]:
        known_before, place = len(self._known), 0
        while True:
            if place >= known_before:
                self.know(place + 2)  # with one to spare: whoever gets the last may see it is
            if place >= len(self._known):
                return
            yield self._known[place]
            place += 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.data[index]
        place = index.__index__() if hasattr(index, "__index__") else index
        if isinstance(place, int) and place >= 0:
            if place >= len(self._known):
                self.know(place + 2)
            return self._known[place]
        return self.data[index]

    def __bool__(self) -> bool:
        if not self._known:
            self._take()
        return bool(self._known)

    def __len__(self) -> int:
        return len(self.data)

    def __length_hint__(self) -> int:
        hint = getattr(self._source, "__length_hint__", None) or getattr(
            self._source, "__len__", None
        )
        if hint is None and self._iterator is None:
            hint = getattr(iter(self._source), "__length_hint__", None)
        return int(hint()) if hint is not None else 0

    def __contains__(self, item: object) -> bool:
        return item in self.data

    def __eq__(self, other: object) -> bool:
        return self.data == (other.data if isinstance(other, _regen) else other)

    __hash__ = None  # as lists have it

    def __repr__(self) -> str:
        shown = ", ".join(repr(each) for each in islice(self._known, 2))
        return f"<{type(self).__name__}: [{shown}{'' if self.__done else '...'}]>"

    def __json__(self) -> list[Any]:
        return self.data

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.data,)

    def __copy__(self) -> list[Any]:  # type: ignore[override]  # a copy is a plain list
        return list(self.data)

    def __deepcopy__(self, memo: dict[int, Any]) -> _regen:
        memo[id(self)] = self  # a generator cannot be copied; what it gives is shared
        return self
