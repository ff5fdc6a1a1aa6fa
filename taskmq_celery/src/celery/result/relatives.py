"""A result and those of the tasks that its task called."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from kombu.utils.imports import symbol_by_name

from celery.exceptions import IncompleteStream

__all__ = ("Relatives", "ResultBase")


class ResultBase:
    """Base of results. ``parent`` is the result of the task before, in a chain."""

    parent: Any = None


class Relatives(ResultBase):
    """Walks from a result to those of the tasks that its task called."""

    id: Any = None
    ready: Any

    @property
    def graph(self) -> Any:
        """This result and those of the tasks that it called, as a graph."""
        return self.build_graph()

    def build_graph(self, intermediate: bool = False, formatter: Any = None) -> Any:
        """The graph of results; ``intermediate`` takes tasks that have not ended for leaves."""
        make = symbol_by_name("celery.utils.graph:DependencyGraph")
        style = symbol_by_name("celery.utils.graph:GraphFormatter")
        graph = make(formatter=formatter or style(root=self.id, shape="oval"))
        for parent, node in self.iterdeps(intermediate=intermediate):
            graph.add_arc(node)
            if parent is not None:
                graph.add_edge(parent, node)
        return graph

    def get_leaf(self) -> Any:
        """What the last of the tasks called by tasks returned."""
        value = None
        for _, node in self.iterdeps():
            value = node.get()
        return value

    def iterdeps(self, intermediate: bool = False) -> Iterator[tuple[Any, Any]]:
        """This result and those of the tasks that it called, breadth first, each with the one
        that it belongs to.

        Raises `IncompleteStream` at a task that has not ended, unless ``intermediate``.
        """
        pending: deque[tuple[Any, Any]] = deque([(None, self)])
        while pending:
            parent, node = pending.popleft()
            yield parent, node
            if node.ready():
                pending.extend((node, child) for child in node.children or ())
            elif not intermediate:
                raise IncompleteStream

    def collect(self, intermediate: bool = False, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
        """Wait for this result and those of the tasks that it called: pairs of result and value.

        With a task that calls ten others, each of which calls one that gives a square:

        >>> [value for _, value in result.collect() if isinstance(value, int)]
        [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
        """
        for _, node in self.iterdeps(intermediate=intermediate):
            yield node, node.get(**kwargs)
