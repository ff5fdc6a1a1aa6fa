"""Other workers on this machine: what they hold is taken back as soon as their process is gone.

Whether it is gone costs no look at the store, so it is asked often. The registry, which says who
there is, is read every few seconds. A worker elsewhere, or in another container, cannot be seen
from here: its jobs wait for the end of their leases.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from taskmq.errors import TransportError
from taskmq.records import Dropped, WorkerRecord
from taskmq.transport import Transport

from .heartbeat import Heartbeat
from .vitals import has_ended

__all__ = ["Neighbours"]

logger = logging.getLogger("taskmq.worker")

READ_EVERY = 3.9
PER_ENTRY = 0.02
"""Seconds between two reads of the registry: the first, and as much again for each entry in it, so
that many workers together do not read more than few."""


class Neighbours:
    """The neighbours of the worker that ``heartbeat`` describes. ``on_reclaim`` is called when
    there is something to reserve because of one, ``on_dropped`` with the jobs for which that was
    once too often, whose task has no attempt left that could tell."""

    def __init__(
        self,
        transport: Transport,
        heartbeat: Heartbeat,
        on_reclaim: Callable[[], None],
        on_dropped: Callable[[Sequence[Dropped]], None] = lambda dropped: None,
    ) -> None:
        self._transport = transport
        self._heartbeat = heartbeat
        self._on_reclaim = on_reclaim
        self._on_dropped = on_dropped
        self._known: list[WorkerRecord] = []
        self._read_at = 0.0
        self._shared_until = 0.0
        self._warned = False

    def arrive(self) -> None:
        """Before the worker registers: look around, and take over from a predecessor of the same
        name. Raises `TransportError`."""
        self._look()
        self._warned = False  # whoever had the name may just have left it, elsewhere

    def look(self) -> None:
        """Take back what those hold that are gone. To be called once or twice a second."""
        try:
            self._look()
        except TransportError as error:
            logger.debug("cannot look after the neighbours: %s", error)

    def _look(self) -> None:
        if self._heartbeat.record.process is None or not self._transport.capabilities.shared:
            return
        if time.monotonic() >= self._read_at:
            self._read()
        for neighbour in self._known[:]:
            if _is_gone(neighbour):
                self._take_from(neighbour)
                self._known.remove(neighbour)

    def _read(self) -> None:
        entries = self._transport.workers()
        self._read_at = time.monotonic() + READ_EVERY + PER_ENTRY * len(entries)
        mine = self._heartbeat.record
        others = [entry for entry in entries if not _is_mine(entry, mine)]
        self._known = [entry for entry in others if _is_near(entry, mine)]
        self._mind_the_name(entry for entry in others if entry.id == mine.id)

    def _mind_the_name(self, namesakes: Iterable[WorkerRecord]) -> None:
        """While another worker goes by the same name, its jobs cannot be told from ours: nobody
        may take back what one of us holds when the other is gone."""
        now = time.monotonic()
        for other in namesakes:
            if other in self._known and _is_gone(other):
                continue
            self._shared_until = now + max(30.0, 3 * other.heartbeat_interval)
            if not self._warned and self._heartbeat.registered:
                self._warned = True
                logger.warning(
                    "another worker is called %s as well (host %s, pid %d): give each a name of "
                    "its own, so that jobs of one that dies need not wait for their leases",
                    other.id,
                    other.host,
                    other.pid,
                )
        self._heartbeat.anonymous = now < self._shared_until

    def _take_from(self, neighbour: WorkerRecord) -> None:
        taken = self._transport.reclaim(neighbour)
        if not taken.count:
            return
        logger.warning(
            "worker %s (pid %d) is gone: took back %d jobs",
            neighbour.id,
            neighbour.pid,
            taken.count,
        )
        self._on_reclaim()
        if taken.dropped:
            self._on_dropped(taken.dropped)


def _is_mine(entry: WorkerRecord, mine: WorkerRecord) -> bool:
    """Also where it was written anonymously."""
    run = (mine.id, mine.started_at, mine.host, mine.pid)
    return (entry.id, entry.started_at, entry.host, entry.pid) == run


def _is_near(other: WorkerRecord, mine: WorkerRecord) -> bool:
    """Whether the other's process could be seen from here."""
    theirs, ours = other.process, mine.process
    return (
        theirs is not None
        and ours is not None
        and other.host == mine.host
        and (theirs.boot, theirs.namespaces) == (ours.boot, ours.namespaces)
    )


def _is_gone(neighbour: WorkerRecord) -> bool:
    return neighbour.process is not None and has_ended(neighbour.pid, neighbour.process)
