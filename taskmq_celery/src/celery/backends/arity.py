"""Which error callbacks want the exception itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

__all__ = ("takes_new_style",)

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def takes_new_style(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], errback: Any
) -> bool:
    """Whether an error callback is called with request, exception and traceback.

    One with a single parameter, or with arguments of its own that leave a single one open, gets
    the id of the failed task. So does a method, as of a task with ``bind=True``: it may want a
    request of its own, to be retried.
    """
    if isinstance(function, MethodType):
        return False
    signature = inspect.signature(function)
    kinds = [each.kind for each in signature.parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return True
    if sum(kind in POSITIONAL for kind in kinds) < 2:
        return False
    if errback.get("immutable") or not (args or kwargs):
        return True
    try:
        signature.bind("task id", *args, **kwargs)
    except TypeError:
        return True
    return False
