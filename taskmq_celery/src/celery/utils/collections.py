"""Mappings and containers: layered configuration, sets and buffers that do not grow for ever."""

from __future__ import annotations

import time
from collections import OrderedDict as _OrderedDict
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from heapq import heapify, heappop, heappush
from itertools import chain, count
from queue import Empty
from typing import Any, ClassVar

from .text import match_case

__all__ = (
    "AttributeDict",
    "AttributeDictMixin",
    "BufferMap",
    "ChainMap",
    "ConfigurationView",
    "DictAttribute",
    "Evictable",
    "LimitedSet",
    "Messagebuffer",
    "OrderedDict",
    "force_mapping",
    "lpmerge",
)


def force_mapping(m: Any) -> Any:
    """An object's attributes as a mapping; a mapping as it is."""
    return m if isinstance(m, Mapping) else DictAttribute(m)


def lpmerge(L: dict[Any, Any], R: Mapping[Any, Any]) -> dict[Any, Any]:  # noqa: N803  # Celery's names
    """Put into ``L`` what ``R`` has, except where that is ``None``."""
    L.update((key, value) for key, value in R.items() if value is not None)
    return L


class OrderedDict(_OrderedDict[Any, Any]):
    """A dict that gives its oldest key: `_LRUkey`."""

    def _LRUkey(self) -> Any:  # noqa: N802  # Celery's name
        return next(iter(self))


class AttributeDictMixin:
    """Lets the items of a mapping be attributes too."""

    def __getattr__(self, k: str) -> Any:
        try:
            mapping: Any = self
            return mapping[k]
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {k!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        mapping: Any = self
        mapping[key] = value


class AttributeDict(dict[str, Any], AttributeDictMixin):
    """A dict whose items are attributes too."""


class DictAttribute:
    """The attributes of an object as a mapping."""

    obj: Any = None

    def __init__(self, obj: Any) -> None:
        object.__setattr__(self, "obj", obj)

    def __getattr__(self, key: str) -> Any:
        return getattr(self.obj, key)

    def __setattr__(self, key: str, value: Any) -> None:
        setattr(self.obj, key, value)

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self.obj, key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __getitem__(self, key: str) -> Any:
        try:
            return getattr(self.obj, key)
        except AttributeError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self.obj, key, value)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and hasattr(self.obj, key)

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self.obj))

    keys = iterkeys = __iter__

    def values(self) -> Iterator[Any]:
        return (getattr(self.obj, key) for key in self)

    itervalues = values

    def items(self) -> Iterator[tuple[str, Any]]:
        return ((key, getattr(self.obj, key)) for key in self)

    iteritems = items


MutableMapping.register(DictAttribute)


class ChainMap(MutableMapping[Any, Any]):
    """Mappings behind each other: the first that has a key answers, changes go into the first.

    ``key_t`` turns every key that is asked for into the one that is stored. Functions given to
    `bind_to` are called with every change made by `update`.
    """

    key_t: Callable[[Any], Any] | None = None
    changes: Any = None
    defaults: Any = None
    maps: Any = None
    _observers: Any = ()

    def __init__(self, *maps: Any, **kwargs: Any) -> None:
        layers = list(maps or [{}])
        self.__dict__.update(
            key_t=kwargs.get("key_t"),
            maps=layers,
            changes=layers[0],
            defaults=layers[1:],
            _observers=[],
        )

    @classmethod
    def fromkeys(cls, iterable: Iterable[Any], *args: Any) -> ChainMap:
        """One layer with these keys, and the same value for all of them, ``None`` if not given."""
        return cls(dict.fromkeys(iterable, *args))

    def add_defaults(self, d: Any) -> None:
        """Add a layer right behind the changes."""
        layer = force_mapping(d)
        self.defaults.insert(0, layer)
        self.maps.insert(1, layer)

    def _key(self, key: Any) -> Any:
        return self.key_t(key) if self.key_t is not None else key

    def pop(self, key: Any, *default: Any) -> Any:
        try:
            return self.changes.pop(self._key(key), *default)
        except KeyError:
            raise KeyError(f"Key not found in the first mapping: {key!r}") from None

    def __missing__(self, key: Any) -> Any:
        raise KeyError(key)

    def _lookup(self, key: Any) -> Any:
        for mapping in self.maps:
            try:
                return mapping[key]
            except KeyError:
                pass
        return self.__missing__(key)

    def __getitem__(self, key: Any) -> Any:
        return self._lookup(self._key(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.changes[self._key(key)] = value

    def __delitem__(self, key: Any) -> None:
        try:
            del self.changes[self._key(key)]
        except KeyError:
            raise KeyError(f"Key not found in first mapping: {key!r}") from None

    def clear(self) -> None:
        self.changes.clear()

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __len__(self) -> int:
        return len(set().union(*self.maps))

    def __iter__(self) -> Iterator[Any]:
        return self._iterate_keys()

    def __contains__(self, key: object) -> bool:
        wanted = self._key(key)
        return any(wanted in mapping for mapping in self.maps)

    def __bool__(self) -> bool:
        return any(self.maps)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change several keys at once, and tell who is bound."""
        changed = dict(*args, **kwargs)
        self.changes.update(changed)
        for tell in self._observers:
            tell(**changed)

    def __copy__(self) -> Any:
        """A copy with changes of its own; the defaults are the same objects, the observers none."""
        return type(self)(dict(self.changes), *self.defaults, key_t=self.key_t)

    copy = __copy__

    def _iter(self, op: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
        """The layers' items, the last layer's first, as `dict` would take them in."""
        return chain(*(op(mapping) for mapping in reversed(self.maps)))

    def _iterate_keys(self) -> Iterator[Any]:
        return iter(dict.fromkeys(self._iter(lambda mapping: list(mapping.keys()))))

    def _iterate_items(self) -> Iterator[tuple[Any, Any]]:
        return ((key, self[key]) for key in self)

    def _iterate_values(self) -> Iterator[Any]:
        return (self[key] for key in self)

    iterkeys, iteritems, itervalues = _iterate_keys, _iterate_items, _iterate_values

    def bind_to(self, callback: Callable[..., Any]) -> None:
        """Call ``callback(**changes)`` after every `update`."""
        self._observers.append(callback)


class ConfigurationView(ChainMap, AttributeDictMixin):
    """Changes before defaults, under several spellings of each key.

    ``keys`` are functions that give another spelling of a key; ``prefix`` one that keys may have.
    """

    def __init__(
        self,
        changes: Any,
        defaults: Any = None,
        keys: Iterable[Callable[[Any], Any]] | None = None,
        prefix: str | None = None,
    ) -> None:
        super().__init__(changes, *(defaults or []))
        self.__dict__.update(
            prefix=f"{prefix.rstrip('_')}_" if prefix else prefix,
            _keys=keys,
        )

    def _to_keys(self, key: Any) -> list[Any]:
        """Every spelling of a key."""
        prefix = self.prefix
        found = [key]
        if prefix:
            found = [match_case(key if key.startswith(prefix) else prefix + key, prefix), key]
        found += [spell(each) for spell in self._keys or () for each in list(found)]
        return list(dict.fromkeys(each for each in found if each is not None))

    def __getitem__(self, key: Any) -> Any:
        spellings = self._to_keys(self._key(key))
        for mapping in self.maps:
            for each in spellings:
                if each in mapping:
                    return mapping[each]
        if len(spellings) > 1:
            raise KeyError(f"Key not found: {key!r} (with prefix: {spellings[0]!r})")
        raise KeyError(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.changes[self._key(key)] = value

    def first(self, *keys: Any) -> Any:
        """The value of the first of these keys that has one."""
        return next((value for value in map(self.get, keys) if value is not None), None)

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def clear(self) -> None:
        """Forget the changes."""
        self.changes.clear()

    def __contains__(self, key: object) -> bool:
        spellings = self._to_keys(self._key(key))
        return any(each in mapping for mapping in self.maps for each in spellings)

    def swap_with(self, other: ConfigurationView) -> None:
        """Become what ``other`` is."""
        self.__dict__.update(
            changes=other.changes,
            defaults=other.defaults,
            key_t=other.key_t,
            prefix=other.prefix,
            maps=other.maps,
            _keys=other._keys,
        )

    def __copy__(self) -> Any:
        made = type(self)(dict(self.changes), list(self.defaults), self._keys)
        made.__dict__.update(prefix=self.prefix, key_t=self.key_t)
        return made

    copy = __copy__

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {value!r}' for key, value in self.items())}}}"


class LimitedSet:
    """A set that forgets its oldest items: what is more than ``maxlen``, and what is older than
    ``expires`` seconds, down to ``minlen``. Iteration goes from the oldest to the newest."""

    max_heap_percent_overload = 15

    def __init__(
        self,
        maxlen: int | None = 0,
        expires: float | None = 0,
        data: Any = None,
        minlen: int = 0,
    ) -> None:
        self.maxlen = maxlen or 0
        self.minlen = minlen or 0
        self.expires = expires or 0
        if self.maxlen < 0 or self.minlen < 0 or self.expires < 0:
            raise ValueError("maxlen, minlen and expires must not be negative")
        if self.maxlen and self.minlen > self.maxlen:
            raise ValueError("minlen must not be more than maxlen")
        # An entry is (when, order, item): items themselves need no order.
        self._data: dict[Any, tuple[float, int, Any]] = {}
        self._heap: list[tuple[float, int, Any]] = []
        self._order = count()
        if data:
            self._take_over(data)

    def _refresh_heap(self) -> None:
        self._heap[:] = self._data.values()
        heapify(self._heap)

    def _maybe_refresh_heap(self) -> None:
        if len(self._heap) * 100 >= len(self._data) * (100 + self.max_heap_percent_overload):
            self._refresh_heap()

    def _is_current(self, entry: tuple[float, int, Any]) -> bool:
        return self._data.get(entry[2]) is entry

    def _oldest(self) -> tuple[float, int, Any] | None:
        """The oldest item's entry; what was discarded or added again is left out."""
        while self._heap and not self._is_current(self._heap[0]):
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def clear(self) -> None:
        self._data.clear()
        self._heap.clear()

    def add(self, item: Any, now: float | None = None) -> None:
        """Add an item, or make it the newest."""
        self._put(item, time.monotonic() if now is None else now)
        self._maybe_refresh_heap()
        if self.maxlen and len(self._data) > self.maxlen:
            self.purge()

    def _put(self, item: Any, when: float) -> None:
        entry = (when, next(self._order), item)
        self._data[item] = entry
        heappush(self._heap, entry)

    def update(self, other: Any) -> None:
        """Add all items of a `LimitedSet` or dict, with their times, or of an iterable, as new."""
        if not other:
            return
        self._take_over(other)
        self.purge()

    def _take_over(self, other: Any) -> None:
        if isinstance(other, LimitedSet):
            for when, _, item in sorted(other._data.values(), key=lambda entry: entry[:2]):
                self._put(item, when)
            self._refresh_heap()
        elif isinstance(other, Mapping):
            for item, value in other.items():
                self._put(item, value[0] if isinstance(value, (list, tuple)) else float(value))
            self._refresh_heap()
        else:
            for item in other:
                self.add(item)

    def discard(self, item: Any) -> None:
        """Take an item out, if it is there."""
        if self._data.pop(item, None) is not None:
            self._maybe_refresh_heap()

    pop_value = discard

    def purge(self, now: Any = None) -> None:
        """Forget what is too much or too old. ``now`` is a time or a function that gives it."""
        moment = time.monotonic() if now is None else now() if callable(now) else now
        while self.maxlen and len(self._data) > self.maxlen:
            self.pop()
        if not self.expires:
            return
        while len(self._data) > self.minlen:
            oldest = self._oldest()
            if oldest is None or oldest[0] + self.expires > moment:
                break
            self.pop()

    def pop(self, default: Any = None) -> Any:
        """Take the oldest item out."""
        oldest = self._oldest()
        if oldest is None:
            return default
        heappop(self._heap)
        del self._data[oldest[2]]
        return oldest[2]

    def as_dict(self) -> dict[Any, float]:
        """Items and their times."""
        return {item: when for when, _, item in self._data.values()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LimitedSet) and self.as_dict() == other.as_dict()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return (
            f"LimitedSet(maxlen={self.maxlen}, expires={self.expires}, minlen={self.minlen}) "
            f"<{len(self)} items>"
        )

    def __iter__(self) -> Iterator[Any]:
        return (item for _, _, item in sorted(self._data.values(), key=lambda entry: entry[:2]))

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, item: object) -> bool:
        return item in self._data

    def __bool__(self) -> bool:
        return bool(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.maxlen, self.expires, self.as_dict(), self.minlen)


class Evictable:
    """Something that can be told to let go of the oldest until it is small enough."""

    Empty = Empty
    maxsize: int | None
    prio: ClassVar[int] = 0

    def evict(self) -> None:
        """Let go of everything beyond ``maxsize``."""
        while self._evict():
            pass

    def _evict(self, limit: int = 100) -> bool:
        """Let go of at most ``limit``; whether there may be more to let go of."""
        for _ in range(limit):
            if self.maxsize is None or self._evictcount <= self.maxsize:
                return False
            try:
                self._evict_one()
            except IndexError:
                return False
        return True

    @property
    def _evictcount(self) -> int:
        raise NotImplementedError

    def _evict_one(self) -> None:
        raise NotImplementedError


class Messagebuffer(Evictable):
    """A queue of at most ``maxsize`` items; the oldest are lost."""

    def __init__(
        self, maxsize: int | None, iterable: Iterable[Any] | None = None, deque: Any = deque
    ) -> None:
        self.maxsize = maxsize
        self.data = deque(iterable or [])
        self._append = self.data.append
        self._pop = self.data.popleft
        self._extend = self.data.extend

    def put(self, item: Any) -> None:
        self._append(item)
        self._evict()

    def extend(self, it: Iterable[Any]) -> None:
        self._extend(it)
        self._evict()

    def take(self, *default: Any) -> Any:
        """The oldest item. Raises `Empty`, unless there is a default."""
        try:
            return self._pop()
        except IndexError:
            if default:
                return default[0]
            raise self.Empty from None

    def _evict_one(self) -> None:
        self._pop()

    @property
    def _evictcount(self) -> int:
        return len(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)}/{self.maxsize}>"

    def __iter__(self) -> Iterator[Any]:
        """Takes the items out."""
        while self.data:
            yield self._pop()

    def __len__(self) -> int:
        return len(self.data)

    def __contains__(self, item: object) -> bool:
        return item in self.data

    def __reversed__(self) -> Iterator[Any]:
        found: Iterator[Any] = reversed(self.data)
        return found

    def __getitem__(self, index: int) -> Any:
        return self.data[index]


class BufferMap(OrderedDict, Evictable):
    """A `Messagebuffer` for each key; together they hold at most ``maxsize`` items."""

    Buffer = Messagebuffer
    bufmaxsize: int | None = 1000
    total = 0

    def __init__(
        self,
        maxsize: int | None,
        iterable: Any = None,
        bufmaxsize: int | None = 1000,
    ) -> None:
        super().__init__()
        self.maxsize = maxsize
        self.bufmaxsize = bufmaxsize
        pairs = iterable.items() if isinstance(iterable, Mapping) else iterable or ()
        for key, items in pairs:
            self.extend(key, items)
        self.evict()

    def put(self, key: Any, item: Any) -> None:
        self._change(key, lambda buffer: buffer.put(item))

    def extend(self, key: Any, it: Iterable[Any]) -> None:
        self._change(key, lambda buffer: buffer.extend(it))

    def _change(self, key: Any, change: Callable[[Messagebuffer], None]) -> None:
        buffer = self._get_or_create_buffer(key)
        before = len(buffer)
        change(buffer)
        buffer.evict()
        self.total += len(buffer) - before
        self.move_to_end(key)
        self._evict()

    def take(self, key: Any, *default: Any) -> Any:
        """The oldest item of a key. Raises `Empty`, unless there is a default."""
        buffer = super().get(key)
        if buffer is None or not len(buffer):
            if default:
                return default[0]
            raise self.Empty
        item = buffer.take()
        self.total -= 1
        if not len(buffer):
            del self[key]
        else:
            self.move_to_end(key)  # the others' turn
        return item

    def _get_or_create_buffer(self, key: Any) -> Messagebuffer:
        try:
            found: Messagebuffer = self[key]
        except KeyError:
            found = self[key] = self._new_buffer()
        return found

    def _new_buffer(self) -> Messagebuffer:
        return self.Buffer(maxsize=self.bufmaxsize)

    def _LRUpop(self, *default: Any) -> Any:  # noqa: N802  # Celery's name
        """The oldest item of the key that was used least recently."""
        return self[self._LRUkey()].take(*default)

    def _evict_one(self) -> None:
        for key in list(self):
            buffer = self[key]
            if not len(buffer):
                del self[key]
                continue
            buffer.take()
            self.total -= 1
            if not len(buffer):
                del self[key]
            return
        raise IndexError("nothing is left")

    @property
    def _evictcount(self) -> int:
        return self.total

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.total}/{self.maxsize}>"
