"""Exceptions and values in a form that can be stored: for result backends.

An exception that cannot be pickled is stored as the nearest class of its ancestry that can, or
else as an `UnpickleableExceptionWrapper`, which has its name and arguments.
"""

from __future__ import annotations

import datetime
import numbers
import pickle
import sys
from base64 import b64decode as base64decode
from base64 import b64encode as base64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from inspect import getmro
from typing import Any, NoReturn
from uuid import UUID

from kombu.utils.encoding import bytes_to_str, safe_repr, str_to_bytes

__all__ = (
    "UnpickleableExceptionWrapper",
    "create_exception_cls",
    "find_pickleable_exception",
    "get_pickleable_etype",
    "get_pickleable_exception",
    "get_pickled_exception",
    "strtobool",
    "subclass_exception",
)

unwanted_base_classes = (Exception, BaseException, object)
"""Classes that say nothing about what happened."""

STRTOBOOL_DEFAULT_TABLE = {
    **dict.fromkeys(("false", "no", "0", "off"), False),
    **dict.fromkeys(("true", "yes", "1", "on"), True),
}


# -- exceptions ----------------------------------------------------------------------------------


def subclass_exception(name: str, parent: Any, module: str) -> Any:
    """A new class of that name, as if it were of ``module``."""
    return type(name, (parent,), {"__module__": module})


def create_exception_cls(name: str, module: str, parent: type | None = None) -> Any:
    """A stand-in for an exception class that is not there."""
    return subclass_exception(name, parent or Exception, module)


def itermro(cls: type, stop: Iterable[type]) -> Iterator[type]:
    """The classes that ``cls`` derives from, nearest first, up to those that are too general."""
    unwanted = tuple(stop)
    for each in getmro(cls):
        if each in unwanted:
            return
        yield each


def find_pickleable_exception(
    exc: BaseException,
    loads: Callable[[bytes], Any] = pickle.loads,
    dumps: Callable[[Any], bytes] = pickle.dumps,
) -> BaseException | None:
    """``exc`` as the nearest of its base classes that survives pickling; ``None`` if there is
    none that says anything."""
    arguments = getattr(exc, "args", [])
    for each in itermro(type(exc), unwanted_base_classes):
        try:
            stand_in: BaseException = each(*arguments)
            loads(dumps(stand_in))
        except Exception:  # noqa: S112  # whatever its constructor or its pickling does
            continue
        return stand_in
    return None


def get_pickleable_etype(
    cls: type,
    loads: Callable[[bytes], Any] = pickle.loads,
    dumps: Callable[[Any], bytes] = pickle.dumps,
) -> type:
    """The nearest of a class's ancestors that can be pickled by itself."""
    for each in getmro(cls):
        if each is object:
            break
        try:
            loads(dumps(each))
            if issubclass(each, BaseException):
                loads(dumps(each()))
        except Exception:  # noqa: S112  # it cannot: the next one
            continue
        return each
    return Exception


class UnpickleableExceptionWrapper(Exception):
    """What is stored of an exception that cannot be: where it comes from and its arguments."""

    exc_module: str
    exc_cls_name: str
    exc_args: Any

    def __init__(
        self, exc_module: str, exc_cls_name: str, exc_args: Any, text: str | None = None
    ) -> None:
        self.exc_module = exc_module
        self.exc_cls_name = exc_cls_name
        self.exc_args = ensure_serializable(exc_args, pickle.dumps)
        self.text = text
        super().__init__(exc_module, exc_cls_name, self.exc_args, text)

    def restore(self) -> Any:
        """An exception of a class made here, with that name and those arguments."""
        return create_exception_cls(self.exc_cls_name, self.exc_module)(*self.exc_args)

    def __str__(self) -> str:
        return str(self.text)

    @classmethod
    def from_exception(cls, exc: Any) -> UnpickleableExceptionWrapper:
        """The wrapper for an exception."""
        kind = type(exc)
        arguments = getattr(exc, "args", [])
        return cls(kind.__module__, kind.__name__, arguments, safe_repr(exc))


def get_pickleable_exception(exc: Any) -> Any:
    """``exc`` if it can be pickled, else the nearest thing that can."""
    try:
        pickle.loads(pickle.dumps(exc))  # noqa: S301  # our own bytes, made in this line
    except Exception:
        return find_pickleable_exception(exc) or UnpickleableExceptionWrapper.from_exception(exc)
    return exc


def get_pickled_exception(exc: Any) -> Any:
    """The exception behind what `get_pickleable_exception` gave."""
    return exc.restore() if isinstance(exc, UnpickleableExceptionWrapper) else exc


def raise_with_context(exc: BaseException) -> NoReturn:
    """Raise ``exc``; the exception that is being handled, if any, is its cause."""
    handled = sys.exc_info()[1]
    if handled is None or handled is exc:
        raise exc
    raise exc from handled


# -- values --------------------------------------------------------------------------------------


def ensure_serializable(items: Iterable[Any], encoder: Callable[[Any], Any]) -> tuple[Any, ...]:
    """``items`` with the text of those that ``encoder`` cannot encode in their place."""

    def fit(item: Any) -> Any:
        try:
            encoder(item)
        except Exception:
            return safe_repr(item)
        return item

    return tuple(fit(item) for item in items)


def b64encode(s: str | bytes) -> str:
    """Base64 of text or bytes, as text."""
    text: str = bytes_to_str(base64encode(str_to_bytes(s)))
    return text


def b64decode(s: str | bytes) -> bytes:
    """The bytes behind base64."""
    return base64decode(str_to_bytes(s))


def strtobool(term: Any, table: Mapping[str, bool] | None = None) -> Any:
    """What a word such as ``yes`` or ``off`` means; anything but text as it is.

    Raises ``TypeError`` for other words.
    """
    if not isinstance(term, str):
        return term
    try:
        return (STRTOBOOL_DEFAULT_TABLE if table is None else table)[term.lower()]
    except KeyError:
        raise TypeError(f"Cannot coerce {term!r} to type bool") from None


def _iso(moment: Any) -> str:
    if not isinstance(moment, datetime.datetime):
        return str(moment.isoformat())
    text = moment.isoformat()
    if moment.microsecond:
        text = text[:23] + text[26:]  # milliseconds
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def jsonify(
    obj: Any,
    builtin_types: tuple[type, ...] = (numbers.Real, str),
    key: Any = None,
    keyfilter: Callable[[Any], bool] | None = None,
    unknown_type_filter: Callable[[Any], Any] | None = None,
) -> Any:
    """A value as what JSON has: containers element by element, dates and durations as text.

    ``keyfilter`` chooses keys of mappings; what is of no known type goes through
    ``unknown_type_filter``, without which it is a ``ValueError``.
    """

    def inner(value: Any, key: Any = None) -> Any:
        return jsonify(value, builtin_types, key, keyfilter, unknown_type_filter)

    if obj is None or isinstance(obj, builtin_types):
        return obj
    if hasattr(obj, "__json__"):
        return obj.__json__()
    if hasattr(obj, "as_dict") and not isinstance(obj, dict):
        return inner(obj.as_dict(recurse=True))
    if isinstance(obj, (tuple, list)):
        return [inner(each) for each in obj]
    if isinstance(obj, dict):
        return {
            name: inner(value, name)
            for name, value in obj.items()
            if keyfilter is None or keyfilter(name)
        }
    if isinstance(obj, (datetime.datetime, datetime.date, datetime.time)):
        return _iso(obj)
    if isinstance(obj, (datetime.timedelta, Decimal, UUID)):
        return str(obj)
    if unknown_type_filter is not None:
        return unknown_type_filter(obj)
    raise ValueError(f"Unsupported type: {type(obj)!r} {obj!r} (parent: {key})")
