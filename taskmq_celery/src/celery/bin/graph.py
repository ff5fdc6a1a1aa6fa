"""``celery graph``: drawings for Graphviz."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import click

from celery.bin.base import CeleryCommand, asking_workers, handle_preload_options
from celery.utils.graph import DependencyGraph, GraphFormatter
from celery.utils.imports import symbol_by_name

__all__ = ["bootsteps", "graph", "workers"]


@click.group()
@click.pass_context
@handle_preload_options
def graph(ctx: click.Context) -> None:
    """Draw, in Graphviz' language."""


@graph.command(cls=CeleryCommand)
@click.pass_context
def bootsteps(ctx: click.Context) -> None:
    """Draw the steps of a worker of this app, its own included."""
    from celery.worker import WorkController  # as above
    from celery.worker.consumer import Consumer

    app = ctx.obj.app
    drawing: DependencyGraph = DependencyGraph()
    for blueprint in (
        WorkController.Blueprint(steps=app.steps["worker"]),
        Consumer.Blueprint(steps=app.steps["consumer"]),
    ):
        drawing.update(
            (_short(step), [_short(symbol_by_name(one)) for one in step.requires])
            for step in blueprint._finalize_steps(blueprint.claim_steps())
        )
    drawing.to_dot(sys.stdout, GraphFormatter())


def _short(step: Any) -> str:
    return str(step.name).rpartition(".")[2]


class _Fleet(GraphFormatter):
    """Brokers, result backends and workers, each in its shape."""

    shapes: ClassVar[dict[str, dict[str, str]]] = {
        "broker": {"shape": "circle", "fillcolor": "cadetblue3", "color": "cadetblue4"},
        "backend": {"shape": "folder", "fillcolor": "peachpuff3", "color": "black"},
    }

    def __init__(self, kinds: Mapping[str, str]) -> None:
        super().__init__()
        self._kinds = kinds

    def node(self, obj: Any, **attrs: Any) -> str:
        return super().node(obj, **{**self.shapes.get(self._kinds.get(obj, ""), {}), **attrs})

    terminal_node = node


@graph.command(cls=CeleryCommand)
@click.pass_context
def workers(ctx: click.Context) -> None:
    """Draw the workers that answer, their broker and the result backend."""
    app = ctx.obj.app
    with asking_workers("graph workers"):
        replies = app.control.inspect().stats() or {}
        broker = app.connection_for_read().as_uri()
    backend = app.backend.as_uri()
    kinds = {broker: "broker", backend: "backend"}
    drawing: DependencyGraph = DependencyGraph([(broker, []), (backend, [])])
    drawing.update((node, [broker, backend]) for node in sorted(replies))
    drawing.to_dot(sys.stdout, _Fleet(kinds))
