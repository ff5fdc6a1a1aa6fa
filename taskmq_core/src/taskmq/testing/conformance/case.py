"""A case: one promise of the port, and how to catch a transport that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taskmq.transport import Capabilities

from .subject import Subject

__all__ = ["Case", "case"]


@dataclass(frozen=True)
class Case:
    """A function that checks a store, which is empty when it is called.

    ``needs`` are the fields of `Capabilities` without which the promise does not apply.
    """

    facet: str
    name: str
    needs: tuple[str, ...]
    body: Callable[[Subject], None]

    def missing(self, capabilities: Capabilities) -> list[str]:
        """What the transport does not claim to do, of what the case needs."""
        return [need for need in self.needs if not getattr(capabilities, need)]

    @property
    def promise(self) -> str:
        """What is checked, in a sentence."""
        text = self.body.__doc__ or self.name.replace("_", " ")
        return " ".join(text.split())

    def __str__(self) -> str:
        return f"{self.facet}/{self.name}"


def case(*needs: str) -> Callable[[Callable[[Subject], None]], Case]:
    """Make a function a `Case` of the facet that its module is named after."""

    def wrap(body: Callable[[Subject], None]) -> Case:
        return Case(body.__module__.rpartition(".")[2], body.__name__, needs, body)

    return wrap
