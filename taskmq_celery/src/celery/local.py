"""Stand-ins: an object that acts as another one, which is looked up, or made, when it is needed.

>>> current_app = Proxy(get_current_app)         # looked up at every use
>>> add = PromiseProxy(make_task, (function,))   # made at the first use
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import GenericAlias
from typing import Any

__all__ = ("PromiseProxy", "Proxy", "maybe_evaluate", "try_import")

_LOCAL, _ARGS, _KWARGS, _NAME = "_Proxy__local", "_Proxy__args", "_Proxy__kwargs", "__custom_name__"
_DOC, _THING, _PENDING = "__custom_doc__", "__thing", "__pending__"


def try_import(module: str, default: Any = None) -> Any:
    """A module, or ``default`` if there is none of that name."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return default


class _OfTheObject(str):
    """A class attribute (a string, as the class needs one) that on a proxy is the object's."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, value: str, name: str) -> _OfTheObject:
        made = super().__new__(cls, value)
        made.name = name
        return made

    def __get__(self, proxy: Any, owner: type) -> Any:
        if proxy is None:
            return str(self)
        if self.name == "__doc__":
            with suppress(AttributeError):
                return object.__getattribute__(proxy, _DOC)
        return getattr(proxy._get_current_object(), self.name)


class Subscriptable:
    """May be written with the types of its parameters, as in annotations: ``Task[[int], str]``."""

    __slots__ = ()

    @classmethod
    def __class_getitem__(cls, item: Any) -> GenericAlias:
        return GenericAlias(cls, item)


class Proxy:
    """Acts as what ``local(*args, **kwargs)`` returns, which is asked anew at every use.

    ``local`` may also be an object with an attribute called ``name``, as of a thread local.
    """

    __slots__ = (_ARGS, _DOC, _KWARGS, _LOCAL, _NAME, "__dict__", "__weakref__")
    __module__ = _OfTheObject(__name__, "__module__")
    __doc__ = _OfTheObject(__doc__, "__doc__")

    def __init__(
        self,
        local: Any,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        __doc__: str | None = None,  # the object's own is shown without one
    ) -> None:
        keep = object.__setattr__
        keep(self, _LOCAL, local)
        keep(self, _ARGS, args or ())
        keep(self, _KWARGS, kwargs or {})
        if name is not None:
            keep(self, _NAME, name)
        if __doc__ is not None:
            keep(self, _DOC, __doc__)

    def _get_current_object(self) -> Any:
        """What this stands for now."""
        own = object.__getattribute__
        local = own(self, _LOCAL)
        if hasattr(local, "__release_local__"):
            try:
                return getattr(local, own(self, _NAME))
            except AttributeError:
                raise RuntimeError(f"no object bound to {own(self, _NAME)}") from None
        return local(*own(self, _ARGS), **own(self, _KWARGS))

    @property
    def __name__(self) -> str:
        try:
            return str(object.__getattribute__(self, _NAME))
        except AttributeError:
            return str(self._get_current_object().__name__)

    @property  # type: ignore[misc]  # typeshed has it writable; a proxy's kind cannot be set
    def __class__(self) -> Any:
        return self._get_current_object().__class__

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]  # that of the object
        try:
            found: dict[str, Any] = self._get_current_object().__dict__
        except RuntimeError:
            raise AttributeError("__dict__") from None
        return found

    def __repr__(self) -> str:
        try:
            current = self._get_current_object()
        except RuntimeError:  # nothing is bound
            return f"<{type(self).__name__} unbound>"
        return repr(current)

    def __bool__(self) -> bool:
        try:
            return bool(self._get_current_object())
        except RuntimeError:
            return False

    def __dir__(self) -> list[str]:
        try:
            return dir(self._get_current_object())
        except RuntimeError:
            return []

    def __getattr__(self, name: str) -> Any:
        if name == "__members__":
            return dir(self._get_current_object())
        return getattr(self._get_current_object(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._get_current_object(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._get_current_object(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._get_current_object()(*args, **kwargs)

    def __reduce__(self) -> Any:
        return self._get_current_object().__reduce__()


def _forward(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Proxy, *args: Any) -> Any:
        return function(self._get_current_object(), *args)

    return method


def _forward_alone(function: Callable[[Any], Any]) -> Callable[[Proxy], Any]:
    def method(self: Proxy) -> Any:
        return function(self._get_current_object())

    return method


def _reflect(function: Callable[[Any, Any], Any]) -> Callable[[Proxy, Any], Any]:
    def method(self: Proxy, other: Any) -> Any:
        return function(other, self._get_current_object())

    return method


def _exit_context(self: Proxy, *exc_info: Any, **kwargs: Any) -> Any:
    current = self._get_current_object()
    return type(current).__exit__(current, *exc_info, **kwargs)


# Operators look methods up on the type: each has to be there by name.
_BINARY = (
    *("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "matmul"),
    *("lshift", "rshift", "and", "or", "xor"),
)
_IN_PLACE = tuple(f"i{name}" for name in _BINARY)
_OTHERS = (
    *("lt", "le", "eq", "ne", "gt", "ge"),
    *("neg", "pos", "abs", "invert", "index"),
    *("contains", "getitem", "setitem", "delitem"),
)
_FORWARDED: dict[str, Callable[..., Any]] = {
    "__coerce__": lambda current, other: current.__coerce__(other),  # Python 2 had these three
    "__complex__": complex,
    "__divmod__": divmod,
    "__enter__": lambda current: type(current).__enter__(current),
    "__float__": float,
    "__hash__": hash,
    "__hex__": hex,
    "__int__": int,
    "__iter__": iter,
    "__len__": len,
    "__next__": next,
    "__oct__": oct,
    "__reversed__": reversed,
    "__round__": round,
    "__str__": str,
}
for _name in (*_BINARY, *_IN_PLACE, *_OTHERS):
    _FORWARDED[f"__{_name}__"] = getattr(operator, f"__{_name}__")

_ALONE = (
    *("abs", "complex", "enter", "float", "hex", "index", "int", "invert", "iter", "len", "neg"),
    *("oct", "pos", "str"),
)
for _name, _function in _FORWARDED.items():
    setattr(Proxy, _name, _forward(_function))
Proxy.__exit__ = _exit_context  # type: ignore[attr-defined]  # as the others, from outside
for _name in _ALONE:
    setattr(Proxy, f"__{_name}__", _forward_alone(_FORWARDED[f"__{_name}__"]))
for _name in _BINARY:
    setattr(Proxy, f"__r{_name}__", _reflect(getattr(operator, f"__{_name}__")))


class PromiseProxy(Proxy):
    """Acts as what ``local(*args, **kwargs)`` returned the first time it was needed."""

    __slots__ = (_PENDING, _THING)
    __module__ = _OfTheObject(__name__, "__module__")
    __doc__ = _OfTheObject(__doc__, "__doc__")

    def _get_current_object(self) -> Any:
        try:
            return object.__getattribute__(self, _THING)
        except AttributeError:
            return self.__evaluate__()

    def __then__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` once the object exists: now, if it does."""
        if self.__evaluated__():
            return function(*args, **kwargs)
        try:
            pending = object.__getattribute__(self, _PENDING)
        except AttributeError:
            pending = []
            object.__setattr__(self, _PENDING, pending)
        pending.append((function, args, kwargs))
        return None

    def __evaluated__(self) -> bool:
        """Whether the object was made already."""
        try:
            object.__getattribute__(self, _THING)
        except AttributeError:
            return False
        return True

    def __maybe_evaluate__(self) -> Any:
        return self._get_current_object()

    def __evaluate__(self, _clean: Iterable[str] = (_LOCAL, _ARGS, _KWARGS)) -> Any:
        """Make the object; what it was made from, the attributes ``_clean``, is let go."""
        thing = Proxy._get_current_object(self)
        object.__setattr__(self, _THING, thing)
        for name in _clean:
            with suppress(AttributeError):
                object.__delattr__(self, name)
        try:
            pending = object.__getattribute__(self, _PENDING)
        except AttributeError:
            return thing
        object.__delattr__(self, _PENDING)
        for function, args, kwargs in pending:
            function(*args, **kwargs)
        return thing


def maybe_evaluate(obj: Any) -> Any:
    """What a `PromiseProxy` stands for; anything else as it is."""
    try:
        evaluate = obj.__maybe_evaluate__
    except AttributeError:
        return obj
    return evaluate()


class class_property(Subscriptable):  # noqa: N801  # used like a decorator, and Celery's name
    """A property of the class and of its instances, with an optional setter."""

    def __init__(
        self,
        getter: Callable[..., Any] | None = None,
        setter: Callable[..., Any] | None = None,
    ) -> None:
        self._get, self._set = _unwrap(getter), _unwrap(setter)
        for attribute in ("__name__", "__doc__", "__module__"):
            value = getattr(self._get, attribute, None)
            if value is not None:
                setattr(self, attribute, value)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if self._get is None:
            raise AttributeError("not readable")
        return self._get.__get__(owner or type(instance))()

    def __set__(self, instance: Any, value: Any) -> None:
        if self._set is None:
            raise AttributeError("cannot be set")
        self._set.__get__(type(instance))(value)

    def setter(self, setter: Callable[..., Any]) -> class_property:
        return type(self)(self._get, setter)


def _unwrap(function: Any) -> Any:
    return getattr(function, "__func__", function)
