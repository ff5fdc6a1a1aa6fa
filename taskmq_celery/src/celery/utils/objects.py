"""Small helpers for classes and objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from celery.local import Subscriptable

__all__ = ("Bunch", "FallbackContext", "getitem_property", "mro_lookup")


class Bunch:
    """An object with the attributes that it is given."""

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)


def mro_lookup(
    cls: type,
    attr: str,
    stop: Collection[type] | None = None,
    monkey_patched: Sequence[str] | None = None,
) -> type | None:
    """The first class of ``cls.mro()`` that defines ``attr``.

    The search ends at a class of ``stop``: the answer is ``None`` then, unless the attribute there
    comes from a module that is not in ``monkey_patched`` (somebody has replaced it).
    """
    for each in cls.mro():
        if stop and each in stop:
            found = vars(each).get(attr)
            module = getattr(found, "__module__", None)
            replaced = found is not None and monkey_patched and module not in monkey_patched
            return each if replaced else None
        if attr in vars(each):
            return each
    return None


class FallbackContext(Subscriptable):
    """``with FallbackContext(given, make) as resource``: what is given, else what ``make()`` opens.

    Only what was opened here is closed at the end.
    """

    def __init__(
        self, provided: Any, fallback: Callable[..., Any], *fb_args: Any, **fb_kwargs: Any
    ) -> None:
        self.provided = provided
        self.fallback = fallback
        self.fb_args = fb_args
        self.fb_kwargs = fb_kwargs
        self._context: Any = None

    def __enter__(self) -> Any:
        if self.provided is not None:
            return self.provided
        context = self.fallback(*self.fb_args, **self.fb_kwargs)
        entered = context.__enter__()
        self._context = context  # only now: one that could not be opened is not to be closed
        return entered

    def __exit__(self, *exc_info: Any) -> bool | None:
        context, self._context = self._context, None
        if context is None:
            return None
        suppressed: bool | None = context.__exit__(*exc_info)
        return suppressed


class getitem_property:  # noqa: N801  # Celery's name
    """An attribute that is an item of the object: ``name = getitem_property("options.name")``.

    A path with a dot goes through attributes or items on the way.
    """

    def __init__(self, keypath: str, doc: str | None = None) -> None:
        path, _, self.key = keypath.rpartition(".")
        self.path = path.split(".") if path else None
        self.__doc__ = doc

    def _path(self, obj: Any) -> Any:
        """The mapping that has the item."""
        for name in self.path or ():
            obj = obj[name]
        return obj

    def __get__(self, obj: Any, type: type | None = None) -> Any:
        return self if obj is None else self._path(obj).get(self.key)

    def __set__(self, obj: Any, value: Any) -> None:
        self._path(obj)[self.key] = value
