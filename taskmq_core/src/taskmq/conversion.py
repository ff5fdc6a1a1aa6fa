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
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise DecodeError(str(error)) from None


def argument_converter(
    function: Callable[..., Any], *, bound: bool = False
) -> ArgumentConverter | None:
    """A converter for a call of ``function``, or ``None`` if no annotation asks for one.

    ``bound``: the first parameter is filled in already.
    """
    hints = {name: hint for name, hint in _hints(function).items() if needs_conversion(hint)}
    hints.pop("return", None)
    if not hints:
        return None
    parameters = list(inspect.signature(function).parameters.values())[bound:]
    by_position = [
        hints.get(p.name)
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    rest = next((hints.get(p.name) for p in parameters if p.kind is p.VAR_POSITIONAL), None)

    def converted(
        args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        padded = by_position + [rest] * (len(args) - len(by_position))
        positional = [
            value if hint is None else convert(value, hint)
            for value, hint in zip(args, padded, strict=False)
        ]
        keywords = {
            name: convert(value, hints[name]) if name in hints else value
            for name, value in kwargs.items()
        }
        return positional, keywords

    return converted


def result_type(function: Callable[..., Any]) -> Any | None:
    """The return annotation if a result needs converting to it, else ``None``."""
    hint = _hints(function).get("return")
    return hint if hint is not None and needs_conversion(hint) else None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:
        return {}  # names that only a type checker can resolve: leave such values as they came


def _keep_instance(hint: type, value: Any) -> Any:
    if isinstance(value, hint):
        return value
    raise NotImplementedError(hint)
