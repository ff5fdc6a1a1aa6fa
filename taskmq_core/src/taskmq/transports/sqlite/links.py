"""What new jobs wait for: some of it is new as well, some has ended long ago."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from taskmq.codec import Payload
from taskmq.envelope import Envelope, RunIf
from taskmq.errors import UnknownDependency
from taskmq.records import Failure, Loss
from taskmq.states import TERMINAL, JobState

from .rows import json_of
from .statements import DEPENDENCIES
from .statements import ENQUEUE as SQL

__all__ = ["Node", "Stored", "insert_links", "link", "look_up"]

AWAITED, MET, LOST = range(3)
"""Column ``met`` of the edges."""

_encode = msgspec.json.Encoder().encode
_decode_failure = msgspec.json.Decoder(Failure).decode


class Stored(msgspec.Struct):
    """What is known of a job that is in the store already."""

    state: str
    result: Payload | None = None
    dead_reason: str | None = None
    failure: str | None = None

    @property
    def is_lost(self) -> bool:
        return self.state in TERMINAL and self.state != JobState.SUCCEEDED

    @property
    def loss(self) -> Loss:
        failure = None if self.failure is None else _decode_failure(self.failure)
        return Loss(state=self.state, reason=self.dead_reason or "", failure=failure)


class Node(msgspec.Struct):
    """A new job with dependencies, and what became of each."""

    run_if: RunIf
    met: dict[str, int] = {}
    skipped: bool = False

    @property
    def pending(self) -> int:
        return sum(each == AWAITED for each in self.met.values())

    @property
    def is_unneeded(self) -> bool:
        """It would run only if something was lost, and nothing is."""
        return self.run_if == "failed" and set(self.met.values()) == {MET}


def look_up(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, Stored]:
    """Those of these jobs that are stored."""
    rows = connection.execute(SQL["stored"], (json_of(names),)).fetchall()
    return {
        job_id: Stored(state, None if codec is None else Payload(codec, data), reason, failure)
        for job_id, state, codec, data, reason, failure in rows
    }


def link(envelopes: Iterable[Envelope], stored: Mapping[str, Stored]) -> dict[str, Node]:
    """The dependencies of new jobs. Raises `UnknownDependency`."""
    new = {envelope.id: envelope for envelope in envelopes}
    nodes: dict[str, Node] = {}
    waiting: defaultdict[str, list[str]] = defaultdict(list)
    for envelope in new.values():
        if envelope.after:
            node = nodes[envelope.id] = Node(envelope.run_if, {})
            for parent in dict.fromkeys(each.job for each in envelope.after):
                if parent not in new and parent not in stored:
                    raise UnknownDependency(
                        f"job {envelope.id} ({envelope.task}) waits for job {parent}, which is "
                        "neither in the same batch nor in the store; nothing was stored"
                    )
                known = stored.get(parent)
                succeeded = known is not None and known.state == JobState.SUCCEEDED
                node.met[parent] = MET if succeeded else AWAITED
                waiting[parent].append(envelope.id)
    lost = [parent for parent, known in stored.items() if known.is_lost]
    for job_id, node in nodes.items():
        if node.is_unneeded:
            node.skipped = True
            lost.append(job_id)
    while lost:
        parent = lost.pop()
        for child in waiting.get(parent, ()):
            node = nodes[child]
            if node.run_if != "succeeded":
                node.met[parent] = LOST
            elif not node.skipped:
                node.skipped = True
                lost.append(child)
    return nodes


def insert_links(
    connection: sqlite3.Connection,
    placed: Sequence[tuple[int, Envelope]],
    nodes: Mapping[str, Node],
    stored: Mapping[str, Stored],
) -> None:
    """Store what new jobs wait for, what they were handed already, and their conditions."""
    edges: list[tuple[str, int, int]] = []
    for seq, envelope in placed:
        if envelope.id in nodes:
            edges += [(parent, seq, met) for parent, met in nodes[envelope.id].met.items()]
    connection.executemany(SQL["insert_edge"], edges)
    results = {id: stored[id].result for id, _, met in edges if met == MET}
    handed = [(id, r.codec, r.data) for id, r in results.items() if r is not None]
    connection.executemany(SQL["insert_input"], handed)
    skipped = Loss(state=JobState.SKIPPED.value)
    lost = {id for id, _, met in edges if met == LOST}
    losses = [(id, _encode(stored[id].loss if id in stored else skipped).decode()) for id in lost]
    connection.executemany(SQL["insert_loss"], losses)
    special = [
        (seq, envelope.run_if, envelope.fail_fast)
        for seq, envelope in placed
        if envelope.run_if != "succeeded" or envelope.fail_fast
    ]
    connection.executemany(DEPENDENCIES["insert_node"], special)
