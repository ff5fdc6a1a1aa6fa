"""Arguments and results back to the types that a task's annotations name.

JSON has no datetime, set or dataclass: what travelled as text or list is converted where the
annotation asks for such a type and left alone everywhere else (``int``, ``str``, plain ``list``
and ``dict``, no annotation). Conversion is msgspec's, from built-in types.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import typing
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .errors import DecodeError

__all__ = ["ArgumentConverter", "argument_converter", "convert", "result_type"]

ArgumentConverter = Callable[
    [Sequence[Any], dict[str, Any]], "tuple[Sequence[Any], dict[str, Any]]"
]

CONVERTED = (
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    decimal.Decimal,
    bytes,
    bytearray,
    set,
    frozenset,
    tuple,
    enum.Enum,
    msgspec.Struct,
)


def needs_conversion(hint: Any) -> bool:
    """Whether JSON would change a value of this type."""
    hint = getattr(hint, "__supertype__", hint)  # a NewType
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is dict and arguments and arguments[0] is not str:
        return True
    if any(needs_conversion(argument) for argument in arguments):
        return True
    kind = origin or hint
    return isinstance(kind, type) and (
        issubclass(kind, CONVERTED) or dataclasses.is_dataclass(kind)
    )


def convert(value: Any, hint: Any) -> Any:
    """``value`` as ``hint``. Raises `DecodeError` if it does not fit."""
    try:
        return msgspec.convert(value, hint, str_keys=True, dec_hook=_keep_instance)
    except Exception as error:  # a dataclass may raise anything when it is made
        raise DecodeError(str(error)) from None


def argument_converter(
    function: Callable[..., Any], *, bound: bool = False
) -> ArgumentConverter | None:
    """A converter for a call of ``function``, or ``None`` if no annotation asks for one.

    ``bound``: the first parameter is filled in already.
    """
    by_position: list[Any] = []
    by_name: dict[str, Any] = {}
    rest: dict[Any, Any] = {}
    hints = _hints(function)
    if not hints:
        return None  # before 3.11 some built-in functions have no signature to look at
    for parameter in list(inspect.signature(function).parameters.values())[bound:]:
        hint = _conversion_of(hints.get(parameter.name), parameter.default)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            rest[parameter.kind] = hint
            continue
        if parameter.kind is not parameter.KEYWORD_ONLY:
            by_position.append(hint)
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            by_name[parameter.name] = hint
    if not any(hint is not None for hint in (*by_position, *by_name.values(), *rest.values())):
        return None
    more = rest.get(inspect.Parameter.VAR_POSITIONAL)
    other = rest.get(inspect.Parameter.VAR_KEYWORD)

    def converted(
        args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        padded = by_position + [more] * (len(args) - len(by_position))
        positional = [_as(value, hint) for value, hint in zip(args, padded, strict=False)]
        return positional, {k: _as(v, by_name.get(k, other)) for k, v in kwargs.items()}

    return converted


def _as(value: Any, hint: Any) -> Any:
    return value if hint is None else convert(value, hint)


def _conversion_of(hint: Any, default: object = inspect.Parameter.empty) -> Any:
    """The type to convert to; ``None`` where JSON changes nothing or the type is beyond msgspec."""
    if hint is None or not needs_conversion(hint):
        return None
    if default is None:
        hint = hint | None  # `when: datetime = None` means it
    try:
        msgspec.json.Decoder(hint, dec_hook=_keep_instance)
    except (TypeError, NotImplementedError):
        return None
    return hint


def result_type(function: Callable[..., Any]) -> Any | None:
    """The return annotation if a result needs converting to it, else ``None``."""
    return _conversion_of(_hints(function).get("return"))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:
        return {}  # names that only a type checker can resolve: leave such values as they came


def _keep_instance(hint: type, value: Any) -> Any:
    if isinstance(value, hint):
        return value
    raise NotImplementedError(hint)
