"""Questions about type annotations."""

from __future__ import annotations

import types
import typing
from typing import Any

__all__ = ("annotation_is_class", "annotation_issubclass", "get_optional_arg", "is_none_type")


def is_none_type(value: Any) -> bool:
    """Whether ``value`` is the type of ``None``."""
    return value is type(None)


def get_optional_arg(annotation: Any) -> Any:
    """``T`` of ``Optional[T]`` or ``T | None``; ``None`` for any other annotation."""
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return None
    members = typing.get_args(annotation)
    wanted = [member for member in members if not is_none_type(member)]
    return wanted[0] if len(members) == 2 and len(wanted) == 1 else None


def annotation_is_class(annotation: Any) -> bool:
    """Whether an annotation is a plain class, not one with parameters such as ``list[str]``."""
    return isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias)


def annotation_issubclass(annotation: Any, cls: type) -> bool:
    """Whether an annotation is a plain class that derives from ``cls``."""
    return annotation_is_class(annotation) and issubclass(annotation, cls)
