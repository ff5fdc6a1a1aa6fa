"""Handing out deliveries: the most urgent ready jobs that their limits let run."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from taskmq.transport import Delivery, Reservation
from taskmq.transports._gates import Gates, pause_gate
from taskmq.turns import Turns

from . import dependencies, fair, patterns
from .control import any_paused_workflow
from .gates import limits_of, open_gates, pass_gates
from .rows import json_of, json_of_numbers, update_many
from .statements import CONTROL, GATES
from .statements import RESERVE as SQL

__all__ = ["Claim", "highest", "without_used_up"]

CHUNK = 200
"""How many jobs to look at next when limits have kept some from running."""
MOST_HELD = 5_000
"""How many jobs one exchange holds: some 50 ms. If there are more, it has not finished."""

Claimed = tuple[Any, ...]
CONTROLLED = 11  # whether it has limits or a turn: mostly not, and then nothing more is read
PARTS = itemgetter(12, 1, 10)  # of an envelope: its pattern, the id, what is in the row
QUEUE = 13  # in statement ``claim_named`` only
Controls = Mapping[int, "tuple[str | None, int]"]
"""The limits and the rank of jobs that have either, by their place in the store."""
FREE = (None, 0)
Tops = Mapping[str, "int | None"]
"""The highest ready priority of each queue."""


class Claim:
    """One reservation in the making."""

    def __init__(
        self, connection: sqlite3.Connection, turns: Turns, wanted: Reservation, now: float
    ) -> None:
        self.deliveries: list[Delivery] = []
        self._connection = connection
        self._turns = turns
        self._wanted = wanted
        self._now = now
        self._gates: Gates | None = None  # until a job with limits is seen
        self._held = 0
        self._is_free = not any_paused_workflow(connection)
        self._quotas = dict(wanted.quotas)

    @property
    def has_moved_others(self) -> bool:
        """Whether jobs were held or let go."""
        return self._gates is not None or self._held > 0

    @property
    def is_unfinished(self) -> bool:
        """Whether there may be more that can be had at once."""
        return self._held >= MOST_HELD

    def run(self, tops: Tops) -> Tops:
        """Lease jobs, level by level or as they are named; the tops that are left."""
        lease = self._lease_ready if self._wanted.jobs is None else self._lease_named
        tops = lease(without_used_up(tops, self._quotas))
        while self._gates is not None and self._gates.refill():
            tops = self._tops()
            if self._left < 1 or self.is_unfinished:
                break
            tops = lease(tops)
        return tops

    @property
    def _left(self) -> int:
        return self._wanted.limit - len(self.deliveries)

    def _tops(self) -> Tops:
        tops = dict(self._connection.execute(SQL["tops"], (json_of(self._wanted.queues),)))
        return without_used_up(tops, self._quotas)

    def _lease_ready(self, tops: Tops) -> Tops:
        while self._left > 0 and highest(tops) is not None and not self.is_unfinished:
            before = len(self.deliveries) + self._held
            for queue, level, count in self._shares(tops):
                self._take(queue, level, count)
            if len(tops) == 1 and self._left > 0 and not self.is_unfinished:
                return dict.fromkeys(tops)  # the one queue gave all it had
            tops = self._tops()
            if len(self.deliveries) + self._held == before:
                break  # all of that level have expired, more than could be dropped at once
        return tops

    def _lease_named(self, tops: Tops) -> Tops:
        if self._left < 1 or highest(tops) is None:
            return tops
        open_queues = [queue for queue, top in tops.items() if top is not None]
        places = {name: place for place, name in enumerate(dict.fromkeys(self._wanted.jobs or ()))}
        wanted = {"jobs": json_of(places), "queues": json_of(open_queues), "now": self._now}
        rows = self._connection.execute(SQL["claim_named"], wanted).fetchall()
        rows.sort(key=lambda row: places[row[1]])
        for queue, group in groupby(rows, key=lambda row: str(row[QUEUE])):
            self._lease_first(queue, list(group), self._at_most(queue, self._left))
        return self._tops()

    def _shares(self, tops: Tops) -> list[tuple[str, int | None, int]]:
        """What to take next: (queue, priority or ``None`` for any, how many)."""
        limit = self._left
        if len(tops) == 1:
            return [(queue, None, self._at_most(queue, limit)) for queue in tops]
        top = highest(tops)
        level = [queue for queue, priority in tops.items() if priority == top]
        if len(level) == 1:
            return [(level[0], top, self._at_most(level[0], limit))]
        available = {}
        for queue in self._turns.first(level, limit):
            values = (queue, top, self._at_most(queue, limit))
            available[queue] = self._connection.execute(SQL["available"], values).fetchone()[0]
        shares = self._turns.share(available, self._wanted.queues, limit)
        return [(queue, top, count) for queue, count in shares.items()]

    def _at_most(self, queue: str, count: int) -> int:
        return min(count, self._quotas[queue]) if queue in self._quotas else count

    def _take(self, queue: str, level: int | None, count: int) -> None:
        """Lease the first jobs of a queue that may run, up to ``count``."""
        size = count
        while count > 0 and not self.is_unfinished:
            rows = self._select(queue, level, size)
            taken, is_stale = self._lease_first(queue, rows, count)
            count -= taken
            if len(rows) < size and not is_stale:
                break
            size = max(count, CHUNK)

    def _lease_first(self, queue: str, rows: list[Claimed], count: int) -> tuple[int, bool]:
        """Lease the first of some jobs that may run, up to ``count``; how many were, and whether
        another may have to come before the rest of them."""
        if not self._is_free:
            rows = self._without_stopped(queue, rows)
            if self._gates is not None and self._gates.pressing and self._gates.press_on():
                return 0, True
        controlled = [row[0] for row in rows if row[CONTROLLED]]
        is_stale = False
        if controlled:
            taken, is_stale = self._pass(queue, rows, count, self._controls_of(controlled))
        else:
            taken = len(rows[:count])
            self._lease(queue, rows[:count])
        if queue in self._quotas:
            self._quotas[queue] -= taken
        return taken, is_stale

    def _select(self, queue: str, level: int | None, count: int) -> list[Claimed]:
        if level is None:
            return self._connection.execute(SQL["claim"], (queue, self._now, count)).fetchall()
        values = (queue, level, self._now, count)
        return self._connection.execute(SQL["claim_level"], values).fetchall()

    def _without_stopped(self, queue: str, rows: list[Claimed]) -> list[Claimed]:
        """Those of some jobs whose workflow is not paused; the others are held."""
        seqs = json_of_numbers([row[0] for row in rows])
        found = self._connection.execute(CONTROL["stopped"], (seqs,)).fetchall()
        stopped = {seq: limits for seq, _, limits in found}
        self._connection.executemany(
            GATES["hold"], [(pause_gate(workflow), seq) for seq, workflow, _ in found]
        )
        self._held += len(found)
        for row in rows:
            if stopped.get(row[0]) is not None:
                self._gates = self._gates or open_gates(self._connection, self._now)
                self._gates.step_aside(limits_of(stopped[row[0]]), queue, row[2])
        return [row for row in rows if row[0] not in stopped]

    def _controls_of(self, seqs: Sequence[int]) -> Controls:
        rows = self._connection.execute(SQL["controlled"], (json_of_numbers(seqs),))
        return {seq: (limits, rank) for seq, limits, rank in rows.fetchall()}

    def _pass(
        self, queue: str, rows: list[Claimed], count: int, controls: Controls
    ) -> tuple[int, bool]:
        """See `_lease_first`. Those that may not run are held."""
        gates = self._gates = self._gates or open_gates(self._connection, self._now)
        taken, passed, held = 0, list[Claimed](), list[tuple[str, int]]()
        for row in rows:
            if taken == count:
                break
            limits, _ = controls.get(row[0], FREE)
            gate = None if limits is None else gates.admit(limits_of(limits), queue, row[2])
            if gate is None:
                passed.append(row)
                taken += 1
            else:
                held.append((gate, row[0]))
            if gates.pressing:
                self._write(queue, passed, held, controls)
                passed, held = [], []
                if gates.press_on():
                    return taken, True
        self._write(queue, passed, held, controls)
        return taken, False

    def _write(
        self,
        queue: str,
        passed: Sequence[Claimed],
        held: Sequence[tuple[str, int]],
        controls: Controls,
    ) -> None:
        """Lease jobs, and hold others."""
        self._connection.executemany(GATES["hold"], held)
        self._held += len(held)
        self._lease(queue, passed)
        known = [(row[0], *controls[row[0]]) for row in passed if row[CONTROLLED]]
        limited = [(seq, limits) for seq, limits, _ in known if limits is not None]
        pass_gates(self._connection, limited)
        fair.serve(self._connection, [seq for seq, _, rank in known if rank])

    def _lease(self, queue: str, rows: Sequence[Claimed]) -> None:
        if not rows:
            return
        lease_until = self._now + self._wanted.lease
        values = (lease_until, self._now, self._wanted.worker)
        update_many(self._connection, SQL["lease"], values, [row[0] for row in rows])
        dependents = [row[0] for row in rows if row[8]]
        inputs = dependencies.inputs_of(self._connection, dependents) if dependents else {}
        losses = dependencies.losses_of(self._connection, dependents)
        envelopes = patterns.whole(self._connection, list(map(PARTS, rows)))
        self.deliveries += [
            Delivery(
                job_id=row[1],
                queue=queue,
                priority=row[2],
                envelope=envelope,
                token=row[3] + 1,
                attempt=row[4],
                deliveries=row[5] + 1,
                reclaims=row[6],
                yields=row[7],
                lease_until=lease_until,
                parked_at=row[9],
                inputs=inputs.get(row[0]) if inputs else None,
                losses=losses.get(row[0]) if losses else None,
            )
            for row, envelope in zip(rows, envelopes, strict=True)
        ]


def without_used_up(tops: Tops, quotas: Mapping[str, int]) -> Tops:
    """The same, where nothing is ready in a queue of which no more may be had."""
    if not quotas:
        return tops
    return {queue: top if quotas.get(queue, 1) > 0 else None for queue, top in tops.items()}


def highest(tops: Tops) -> int | None:
    """The highest ready priority of all."""
    return max((top for top in tops.values() if top is not None), default=None)
