"""Values of one thread each."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ("Local", "LocalStack", "get_ident")

get_ident = threading.get_ident
Local = threading.local


class LocalStack(threading.local):
    """A stack of which every thread has its own.

    >>> stack = LocalStack()
    >>> stack.push(1)
    >>> stack.top
    1
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the topmost off; ``None`` from an empty stack."""
        return self.stack.pop() if self.stack else None

    @property
    def top(self) -> Any:
        """The topmost, or ``None``."""
        return self.stack[-1] if self.stack else None

    def __len__(self) -> int:
        return len(self.stack)


_LocalStack = _FastLocalStack = LocalStack
