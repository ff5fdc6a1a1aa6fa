"""`celery.utils.graph`: what depends on what."""

from __future__ import annotations

import io

import pytest

from celery import Celery
from celery.utils.graph import CycleError, DependencyGraph, GraphFormatter

pytestmark = pytest.mark.unit

CAKE = [("cake", ["dough", "oven"]), ("dough", ["flour"]), ("flour", []), ("oven", [])]


def test_what_something_depends_on_comes_first() -> None:
    order = DependencyGraph(CAKE).topsort()
    assert sorted(order) == ["cake", "dough", "flour", "oven"]
    assert order.index("flour") < order.index("dough") < order.index("cake")
    assert order.index("oven") < order.index("cake")


def test_a_chain_longer_than_pythons_stack() -> None:
    chain = DependencyGraph([(number, [number + 1]) for number in range(5_000)] + [(5_000, [])])
    assert chain.topsort() == list(range(5_000, -1, -1))


def test_circles_are_told_of() -> None:
    with pytest.raises(CycleError, match="depends on itself"):
        DependencyGraph([("a", ["b"]), ("b", ["a"])]).topsort()


def test_questions() -> None:
    graph = DependencyGraph(CAKE)
    assert list(graph.edges()) == ["cake", "dough"]
    assert graph.valency_of("cake") == 3
    assert graph.valency_of("tea") == 0
    assert ("oven" in graph, len(graph), graph["dough"]) == (True, 4, ["flour"])
    assert dict(graph.items()) == dict(CAKE)
    other = DependencyGraph([("tea", [])])
    graph.connect(other)
    assert "tea" in graph
    assert repr(graph).splitlines()[:3] == ["cake(3)", "     dough(1)", "          flour(0)"]


def test_a_drawing() -> None:
    out = io.StringIO()
    DependencyGraph(CAKE).to_dot(out, GraphFormatter(type="digraph", id="tea", shape="oval"))
    text = out.getvalue()
    assert text.startswith("digraph tea {")
    assert '"cake" -> "dough"' in text
    assert 'shape="oval"' in text
    assert text.count('    "dough" [') == 1


def test_the_graph_of_a_result(app: Celery) -> None:
    parent, child = app.AsyncResult("a"), app.AsyncResult("b")
    graph = DependencyGraph([(parent, [child]), (child, [])])
    assert graph.topsort() == ["b", "a"]
