"""What counts as a task, or as a signature: by what it can do, whatever its class."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any

__all__ = ("CallableSignature", "CallableTask")


class _ByMethods(ABCMeta):
    """Classes that have every method of ``required`` are subclasses."""

    required: frozenset[str]

    def __subclasscheck__(cls, subclass: type) -> bool:
        if all(hasattr(subclass, name) for name in cls.required):
            return True
        return super().__subclasscheck__(subclass)

    def __instancecheck__(cls, instance: Any) -> bool:
        return all(hasattr(type(instance), name) for name in cls.required) or (
            # A proxy stands for what it looks like.
            all(hasattr(instance.__class__, name) for name in cls.required)
        )


class CallableTask(metaclass=_ByMethods):
    """Can be called, and applied. What a class must have to count as one is ``required``; the
    methods here are for those who derive from it."""

    @abstractmethod
    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Call it with these arguments, in a worker."""

    @abstractmethod
    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in a worker."""

    @abstractmethod
    def apply(self, *args: Any, **kwargs: Any) -> Any:
        """Call it here and now."""

    @classmethod
    def register(cls, other: type) -> type:
        """Have another class count as one, whatever it has. A decorator: gives the class."""
        ABCMeta.register(cls, other)
        return other

    required = frozenset({"__call__", "apply", "apply_async", "delay"})


class CallableSignature(CallableTask):
    """Can be applied, linked and cloned."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the task that it calls, ``task`` in its dict."""

    @property
    @abstractmethod
    def type(self) -> Any:
        """That task, of its app."""

    @property
    @abstractmethod
    def app(self) -> Any:
        """Its app."""

    @property
    @abstractmethod
    def id(self) -> Any:
        """Its id, once it is frozen."""

    @property
    @abstractmethod
    def task(self) -> str:
        """As `name`."""

    @property
    @abstractmethod
    def args(self) -> Any:
        """Positional arguments."""

    @property
    @abstractmethod
    def kwargs(self) -> Any:
        """Arguments by keyword."""

    @property
    @abstractmethod
    def options(self) -> Any:
        """What goes to ``apply_async`` besides."""

    @property
    @abstractmethod
    def subtask_type(self) -> Any:
        """Which kind it is: chain, group…"""

    @property
    @abstractmethod
    def chord_size(self) -> Any:
        """How many results it adds to a chord's header."""

    @property
    @abstractmethod
    def immutable(self) -> bool:
        """Whether it takes no more arguments."""

    @abstractmethod
    def clone(self, args: Any = None, kwargs: Any = None) -> Any:
        """A copy, with more arguments."""

    @abstractmethod
    def freeze(
        self,
        id: str | None = None,
        group_id: str | None = None,
        chord: Any = None,
        root_id: str | None = None,
        group_index: int | None = None,
    ) -> Any:
        """Give it its id; gives its result."""

    @abstractmethod
    def link(self, callback: Any) -> Any:
        """What is to run after its success."""

    @abstractmethod
    def link_error(self, errback: Any) -> Any:
        """What is to run after its failure."""

    @abstractmethod
    def set(self, immutable: bool | None = None, **options: Any) -> Any:
        """Change its options."""

    @abstractmethod
    def __or__(self, other: Any) -> Any:
        """A chain of it and another."""

    @abstractmethod
    def __invert__(self) -> Any:
        """Call it and wait."""

    required = CallableTask.required | {"clone", "freeze", "link", "link_error", "set"}
