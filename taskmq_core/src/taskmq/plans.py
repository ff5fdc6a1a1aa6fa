"""The graphs of workflows as they were submitted: stored beside their jobs, and no longer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .documents import DocumentChange
from .ids import new_id
from .records import JobFilter
from .transport import Transport

__all__ = ["KIND", "NODES", "Head", "Plan", "PlannedNode", "drop", "heads", "load", "prune", "save"]

KIND, NODES = "workflow", "workflow.nodes"
"""Of the documents: what every list of workflows reads, and their graphs."""
GRACE = 600.0
"""Seconds that a plan is kept whose jobs are not there: it is stored before them."""
PAGE = 1000
"""Jobs that are asked for in one round trip."""


class PlannedNode(msgspec.Struct, frozen=True, array_like=True):
    """A job of a plan, its name for people, its task, and what it waits for (positions)."""

    id: str
    name: str
    task: str
    after: tuple[int, ...] = ()


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a workflow without its graph."""

    id: str
    name: str
    created_at: float
    result: str
    """The job whose result is the workflow's."""
    size: int
    """How many nodes were submitted."""


class Plan(Head, frozen=True, kw_only=True):
    """The graph as it was submitted. What jobs added to it later is found by the workflow's id;
    `taskmq.ids.origin_of` their ids is the node that they go back to."""

    nodes: tuple[PlannedNode, ...]


class Graph(msgspec.Struct, frozen=True, array_like=True):
    """The nodes as they are stored: where names are paths (of nested workflows), the ways to them
    stand apart, each once, so that depth costs no node anything."""

    folders: tuple[str, ...]
    places: tuple[int, ...]
    """Of each node, its folder."""
    nodes: tuple[PlannedNode, ...]


_decode_head = msgspec.json.Decoder(Head).decode
_decode_graph = msgspec.json.Decoder(Graph).decode
_encode = msgspec.json.Encoder().encode


def save(store: Transport, plan: Plan) -> None:
    """Store a new plan. Raises `TransportError`."""
    head = Head(
        id=plan.id,
        name=plan.name,
        created_at=plan.created_at,
        result=plan.result,
        size=plan.size,
    )
    parts = ((KIND, _encode(head)), (NODES, _encode(_pack(plan.nodes))))
    store.write(
        [
            DocumentChange(kind=kind, name=plan.id, data=data, revision=new_id(), expected=None)
            for kind, data in parts
        ]
    )


def load(store: Transport, workflow: str) -> Plan | None:
    """The plan of a workflow; ``None`` if there is none."""
    found = store.documents(KIND, [workflow])
    graph = store.documents(NODES, [workflow])
    if not found or not graph:
        return None
    head = msgspec.structs.asdict(_decode_head(found[0].data))
    return Plan(**head, nodes=_unpack(_decode_graph(graph[0].data)))


def heads(store: Transport) -> list[Head]:
    """Of all workflows, newest first."""
    found = [_decode_head(document.data) for document in store.documents(KIND)]
    return sorted(found, key=lambda head: (head.created_at, head.id), reverse=True)


def drop(store: Transport, workflows: Sequence[str]) -> None:
    """Delete plans."""
    for kind in (NODES, KIND):
        changes = [
            DocumentChange(
                kind=kind,
                name=document.name,
                data=None,
                revision=new_id(),
                expected=document.revision,
            )
            for document in store.documents(kind, workflows)
        ]
        if changes:
            store.write(changes)


def prune(store: Transport, now: float, among: Sequence[Head] | None = None) -> set[str]:
    """Delete the plans none of whose jobs is stored any more; which they were."""
    old = [h for h in (heads(store) if among is None else among) if h.created_at < now - GRACE]
    gone: set[str] = set()
    for start in range(0, len(old), PAGE):
        page = old[start : start + PAGE]
        records = store.get([head.result for head in page])
        gone.update(
            head.id
            for head, record in zip(page, records, strict=True)
            if record is None and not store.find(JobFilter(workflow=head.id, limit=1))
        )
    if gone:
        drop(store, sorted(gone))
    return gone


def _pack(nodes: Sequence[PlannedNode]) -> Graph:
    split = [node.name.rpartition("/") for node in nodes]
    folders = {folder: place for place, folder in enumerate(dict.fromkeys(f for f, _, _ in split))}
    return Graph(
        tuple(folders),
        tuple(folders[folder] for folder, _, _ in split),
        tuple(
            PlannedNode(node.id, own, node.task, node.after)
            for node, (_, _, own) in zip(nodes, split, strict=True)
        ),
    )


def _unpack(graph: Graph) -> tuple[PlannedNode, ...]:
    folders = [f"{folder}/" if folder else "" for folder in graph.folders]
    return tuple(
        PlannedNode(node.id, folders[place] + node.name, node.task, node.after)
        for place, node in zip(graph.places, graph.nodes, strict=True)
    )
