"""What counts as a task, or as a signature: by what it can do, whatever its class."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

__all__ = ("CallableSignature", "CallableTask")


class _ByMethods(ABCMeta):
    """Classes that have every method of ``required`` are subclasses."""

    required: frozenset[str]

    def __subclasscheck__(cls, subclass: type) -> bool:
        return all(hasattr(subclass, name) for name in cls.required)

    def __instancecheck__(cls, instance: Any) -> bool:
        return all(hasattr(type(instance), name) for name in cls.required) or (
            # A proxy stands for what it looks like.
            all(hasattr(instance.__class__, name) for name in cls.required)
        )


class CallableTask(metaclass=_ByMethods):
    """Can be called, and applied."""

    required = frozenset({"__call__", "apply", "apply_async", "delay"})


class CallableSignature(CallableTask):
    """Can be applied, linked and cloned."""

    required = CallableTask.required | {"clone", "freeze", "link", "link_error", "set"}
