"""What depends on what: graphs of results and of a worker's parts, and how to draw them.

>>> graph = DependencyGraph([("cake", ["dough"]), ("dough", [])])
>>> graph.topsort()
['dough', 'cake']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from kombu.utils.encoding import bytes_to_str, safe_str

__all__ = ("DOT", "CycleError", "DependencyGraph", "GraphFormatter")


class DOT:
    """The pieces of Graphviz' language."""

    HEAD = "\n{IN}{type} {id} {{\n{INp}graph [{attrs}]\n"
    ATTR = "{name}={value}"
    NODE = '{INp}"{0}" [{attrs}]'
    EDGE = '{INp}"{0}" {dir} "{1}" [{attrs}]'
    ATTRSEP = ", "
    DIRS: ClassVar[dict[str, str]] = {"graph": "--", "digraph": "->"}
    TAIL = "{IN}}}"


class CycleError(Exception):
    """Something depends on itself, by whatever detour."""


class DependencyGraph:
    """Objects and what each depends on. ``it`` are pairs of an object and those objects."""

    def __init__(self, it: Iterable[Any] | None = None, formatter: Any = None) -> None:
        self.formatter = formatter
        self.adjacent: dict[Any, list[Any]] = {}
        self.update(it or ())

    def add_arc(self, obj: Any) -> None:
        """Add an object that depends on nothing yet."""
        self.adjacent.setdefault(obj, [])

    def add_edge(self, A: Any, B: Any) -> None:  # noqa: N803  # Celery's names
        """``A`` depends on ``B``."""
        self[A].append(B)

    def connect(self, graph: DependencyGraph) -> None:
        """Take in another graph."""
        self.adjacent.update(graph.adjacent)

    def update(self, it: Iterable[Any]) -> None:
        """Add objects and what they depend on."""
        pairs = list(it)
        for obj, _ in pairs:
            self.add_arc(obj)
        for obj, needed in pairs:
            for each in needed:
                self.add_edge(obj, each)

    def topsort(self) -> list[Any]:
        """The objects, each after those that it depends on. Raises `CycleError`."""
        order: list[Any] = []
        done: dict[Any, bool] = {}  # false while what it depends on is being looked at
        for start in self.adjacent:
            # A stack of its own: a chain of results may be longer than Python's.
            pending = [(start, iter(self.adjacent[start]))] if start not in done else []
            done.setdefault(start, False)
            while pending:
                obj, needed = pending[-1]
                each = next((one for one in needed if not done.get(one)), _NOTHING)
                if each is _NOTHING:
                    pending.pop()
                    done[obj] = True
                    order.append(obj)
                elif each in done:
                    raise CycleError(f"{each!r} depends on itself")
                else:
                    done[each] = False
                    pending.append((each, iter(self.adjacent.get(each, ()))))
        return order

    def valency_of(self, obj: Any) -> int:
        """How many objects this one stands on, all in all: 0 for one that is not there."""
        if obj not in self.adjacent:
            return 0
        needed = self.adjacent[obj]
        return len(needed) + sum(self.valency_of(each) for each in needed)

    def edges(self) -> Iterator[Any]:
        """The objects that depend on others."""
        return (obj for obj, needed in self.adjacent.items() if needed)

    def to_dot(self, fh: Any, formatter: Any = None) -> None:
        """Write the graph for Graphviz."""
        draw = formatter or self.formatter or GraphFormatter()
        drawn = set()

        def write(text: str) -> None:
            fh.write(bytes_to_str(f"{text}\n"))

        def node(style: Callable[[Any], str], obj: Any) -> None:
            if draw.label(obj) not in drawn:
                drawn.add(draw.label(obj))
                write(style(obj))

        write(draw.head())
        for obj, needed in self.adjacent.items():
            if not needed:
                node(draw.terminal_node, obj)
            for each in needed:
                node(draw.node, obj)
                write(draw.edge(obj, each))
        write(draw.tail())

    def format(self, obj: Any) -> Any:
        """An object as its formatter shows it."""
        return self.formatter(obj) if self.formatter else obj

    def __iter__(self) -> Iterator[Any]:
        return iter(self.adjacent)

    def __getitem__(self, obj: Any) -> list[Any]:
        return self.adjacent[obj]

    def __len__(self) -> int:
        return len(self.adjacent)

    def __contains__(self, obj: object) -> bool:
        return obj in self.adjacent

    def items(self) -> Iterator[tuple[Any, list[Any]]]:
        return iter(self.adjacent.items())

    iteritems = _iterate_items = items

    def __repr__(self) -> str:
        return "\n".join(self.repr_node(obj) for obj in self)

    def repr_node(self, obj: Any, level: int = 1, fmt: str = "{0}({1})") -> str:
        """An object, and below it what it depends on."""
        lines = [fmt.format(obj, self.valency_of(obj))]
        for each in self.adjacent.get(obj, ()):
            text = fmt.format(each, self.valency_of(each))
            if each in self.adjacent:
                text = self.repr_node(each, level + 1, fmt)
            lines.append("     " * level + text)
        return "\n".join(lines)


_NOTHING = object()


class GraphFormatter:
    """How a `DependencyGraph` is drawn; subclasses say what a node is called and looks like."""

    _attr = DOT.ATTR.strip()
    _node = DOT.NODE.strip()
    _edge = DOT.EDGE.strip()
    _head = DOT.HEAD.strip()
    _tail = DOT.TAIL.strip()
    _attrsep = DOT.ATTRSEP
    _dirs: ClassVar[dict[str, str]] = dict(DOT.DIRS)

    scheme: dict[str, Any] = {  # noqa: RUF012  # of the class, for subclasses to replace
        "shape": "box",
        "arrowhead": "vee",
        "style": "filled",
        "fontname": "HelveticaNeue",
    }
    edge_scheme: dict[str, Any] = {  # noqa: RUF012
        "color": "darkseagreen4",
        "arrowcolor": "black",
        "arrowsize": 0.7,
    }
    node_scheme: dict[str, Any] = {"fillcolor": "palegreen3", "color": "palegreen4"}  # noqa: RUF012
    term_scheme: dict[str, Any] = {"fillcolor": "palegreen1", "color": "palegreen2"}  # noqa: RUF012
    graph_scheme: dict[str, Any] = {"bgcolor": "mintcream"}  # noqa: RUF012

    def __init__(
        self,
        root: Any = None,
        type: str | None = None,
        id: str | None = None,
        indent: int = 0,
        inw: str = " " * 4,
        **scheme: Any,
    ) -> None:
        self.id = id or "dependencies"
        self.root = root
        self.type = type or "digraph"
        self.direction = self._dirs[self.type]
        self.IN = inw * indent
        self.INp = self.IN + inw
        self.scheme = {**self.scheme, **scheme}
        self.graph_scheme = {**self.graph_scheme, "root": self.label(self.root)}

    def attr(self, name: str, value: Any) -> str:
        return self.FMT(self._attr, name=name, value=f'"{value}"')

    def attrs(self, d: Any, scheme: Any = None) -> str:
        """Attributes as text, those of ``d`` before those of the schemes."""
        found = {**self.scheme, **(scheme or {}), **(d or {})}
        return self._attrsep.join(self.attr(name, value) for name, value in found.items())

    def head(self, **attrs: Any) -> str:
        return self.FMT(
            self._head, id=self.id, type=self.type, attrs=self.attrs(attrs, self.graph_scheme)
        )

    def tail(self) -> str:
        return self.FMT(self._tail)

    def label(self, obj: Any) -> Any:
        """What a node is called."""
        return obj

    def node(self, obj: Any, **attrs: Any) -> str:
        return self.draw_node(obj, self.node_scheme, attrs)

    def terminal_node(self, obj: Any, **attrs: Any) -> str:
        """A node that depends on nothing."""
        return self.draw_node(obj, self.term_scheme, attrs)

    def edge(self, a: Any, b: Any, **attrs: Any) -> str:
        return self.draw_edge(a, b, **attrs)

    def FMT(self, fmt: str, *args: Any, **kwargs: Any) -> str:  # noqa: N802  # Celery's name
        return fmt.format(*args, **{"IN": self.IN, "INp": self.INp, **kwargs})

    def draw_edge(self, a: Any, b: Any, scheme: Any = None, attrs: Any = None) -> str:
        return self.FMT(
            self._edge,
            safe_str(self.label(a)),
            safe_str(self.label(b)),
            dir=self.direction,
            attrs=self.attrs(attrs, self.edge_scheme if scheme is None else scheme),
        )

    def draw_node(self, obj: Any, scheme: Any = None, attrs: Any = None) -> str:
        return self.FMT(self._node, safe_str(self.label(obj)), attrs=self.attrs(attrs, scheme))
