"""One step of a workflow, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from taskmq.call import Call
from taskmq.envelope import Dependency, RunIf
from taskmq.errors import ConfigError

__all__ = ["Node", "Slot", "take_nodes"]


class Slot(msgspec.Struct, frozen=True):
    """Where the result of a node goes: a position, a keyword, or nowhere (order alone)."""

    source: Node
    into: int | str | None = None
    collect: bool = False


PLAIN = frozenset({int, str, float, bool, bytes, type(None)})
"""Types of arguments that hold no node: mostly all there are, and quickly told."""


@dataclass(eq=False, slots=True)
class Node:
    """A call of a workflow. Made by `Workflow.add`; give it to other calls as an argument, and
    they wait for its result."""

    name: str
    call: Call[Any]
    slots: list[Slot] = field(default_factory=list)
    run_if: RunIf = "succeeded"
    sees_to: bool = False
    """Whether it is there for what the others come to, and is no part of that."""

    def __repr__(self) -> str:
        return f"<node {self.name}>"

    def sources(self) -> Iterable[Node]:
        """What it waits for, each once."""
        return dict.fromkeys([slot.source for slot in self.slots]) if self.slots else ()

    def dependencies(self, ids: Mapping[Node, str]) -> tuple[Dependency, ...]:
        """As the envelope has them."""
        if not self.slots:
            return ()
        return tuple([Dependency(ids[s.source], s.into, s.collect) for s in self.slots])


def take_nodes(call: Call[Any]) -> tuple[Call[Any], list[Slot]]:
    """A call without the nodes among its arguments, and where their results go.

    A node may be an argument, or a list of nodes, whose results arrive as a list. Raises
    `ConfigError` for a node anywhere else: its result could not be put there.
    """
    if PLAIN.issuperset(map(type, call.args)) and PLAIN.issuperset(map(type, call.kwargs.values())):
        return call, []
    slots: list[Slot] = []
    args = [value for place, value in enumerate(call.args) if not _take(value, place, slots)]
    kwargs = {name: v for name, v in call.kwargs.items() if not _take(v, name, slots)}
    if not slots:
        return call, slots
    return Call(call.task, tuple(args), kwargs, call.with_), slots


def _take(value: Any, into: int | str, slots: list[Slot]) -> bool:
    if type(value) in PLAIN:
        return False
    if isinstance(value, Node):
        slots.append(Slot(value, into))
        return True
    if isinstance(value, (list, tuple)) and any(isinstance(each, Node) for each in value):
        if not all(isinstance(each, Node) for each in value):
            raise ConfigError(
                f"argument {into!r} mixes nodes with values: a list that results are collected "
                "in has nodes only"
            )
        slots.extend(Slot(each, into, collect=True) for each in value)
        return True
    if _has_node(value):
        raise ConfigError(
            f"argument {into!r} has a node inside: a result can be an argument, or one of a list "
            "that is an argument"
        )
    return False


def _has_node(value: Any) -> bool:
    if isinstance(value, Node):
        return True
    if isinstance(value, Mapping):
        return any(_has_node(each) for each in value.values())
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, range)):
        return any(_has_node(each) for each in value)
    return False
