"""What each settlement does to its job."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from taskmq.records import Readied
from taskmq.states import Event, JobState
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    Expire,
    LeaseStatus,
    Nack,
    Release,
    RetryLater,
    Revoke,
    Settled,
    Settlement,
)

from . import dependencies, workflows
from .endings import ASKED, back, departures_of, give_up, lose, replace, write_back
from .gates import Departure, refill
from .rows import (
    RUNNING,
    SHORTEST_RUN,
    WAITING,
    Row,
    insert_many,
    json_of,
    json_of_numbers,
    load,
    update_many,
)
from .statements import GATES
from .statements import SETTLE as SQL

__all__ = ["check", "extend", "settle"]

KINDS: dict[type[Settlement], str] = {
    Ack: "ack",
    Delegate: "delegate",
    RetryLater: "retry",
    Nack: "nack",
    DeadLetter: "dead",
    Defer: "defer",
    Release: "release",
    Expire: "expire",
    Revoke: "revoke",
}
"""Column ``settled_as``."""

Acked = tuple[Ack, int, bool, float, int]  # seq, keep_result, result_ttl, dependencies


def settle(
    connection: sqlite3.Connection, settlements: Sequence[Settlement], now: float
) -> tuple[list[Settled], list[Readied]]:
    """Apply the settlements whose delivery is current. Their outcomes, and what is ready now."""
    fails = any(isinstance(settlement, (DeadLetter, Expire)) for settlement in settlements)
    if not fails or len(settlements) == 1 or not dependencies.any_nodes(connection):
        return _settle_together(connection, settlements, now)
    # What fails may revoke others of its workflow, which are settled before it or behind it.
    outcomes: list[Settled] = []
    readied: list[Readied] = []
    for settlement in settlements:
        outcome, more = _settle_together(connection, [settlement], now)
        outcomes += outcome
        readied += more
    return outcomes, readied


def _settle_together(
    connection: sqlite3.Connection, settlements: Sequence[Settlement], now: float
) -> tuple[list[Settled], list[Readied]]:
    if _succeed_plainly(connection, settlements, now):
        return [Settled.DONE] * len(settlements), []
    readied: list[Readied] = []
    found = _examine(connection, [settlement.delivery.job_id for settlement in settlements])
    outcomes: list[Settled] = []
    acked: list[Acked] = []
    apart: list[int] = []  # of those, whose envelope is not in its row
    limited: list[tuple[int, Departure]] = []  # likewise
    others: list[tuple[int, Settlement]] = []
    earlier: dict[str, str] = {}  # how jobs of this batch were settled a moment ago
    for settlement in settlements:
        job_id, kind = settlement.delivery.job_id, KINDS[type(settlement)]
        row = found.get(job_id)
        if row is None or row[3] != settlement.delivery.token:
            outcomes.append(Settled.LEASE_LOST)
            continue
        seq, _, phase, _, settled_as, keep_result, result_ttl, parents, limits, is_apart = row
        if phase != RUNNING or job_id in earlier:
            same = earlier.get(job_id, settled_as) == kind
            outcomes.append(Settled.REPEATED if same else Settled.LEASE_LOST)
            continue
        outcomes.append(Settled.DONE)
        if isinstance(settlement, Ack):
            acked.append((settlement, seq, keep_result, result_ttl, parents))
            if is_apart:
                apart.append(seq)
            if limits is not None:
                delivery = settlement.delivery
                limited.append((seq, Departure(limits, delivery.queue, delivery.priority)))
            earlier[job_id] = kind if result_ttl > 0 else ""  # "": deleted
        else:
            others.append((seq, settlement))
            earlier[job_id] = kind
    if acked:
        if limited:
            connection.executemany(GATES["pass"], [(None, seq) for seq, _ in limited])
        if apart:
            connection.execute(SQL["drop_envelopes"], (json_of_numbers(apart),))
        readied += _succeed(connection, acked, now)
    departures = [departure for _, departure in limited]
    if others:
        more, left = _settle_others(connection, others, now)
        readied += more
        departures += left
    if departures:
        refill(connection, departures, now)
    return outcomes, readied


def _succeed_plainly(
    connection: sqlite3.Connection, settlements: Sequence[Settlement], now: float
) -> bool:
    """What there is to do for many successes of jobs that were stored together, of which each runs
    and nothing else follows. Whether that was so; if not, nothing is changed.

    They are looked at by one row for all, instead of one each. Jobs of a batch have one token.
    """
    if len(settlements) < SHORTEST_RUN:
        return False
    acks = [each for each in settlements if type(each) is Ack and not each.spawn]
    if len(acks) < len(settlements) or dependencies.any_edges(connection):
        return False
    acks.sort(key=_job_id)
    places: list[int] = []
    kept: list[tuple[int, str, bytes]] = []
    for token, group in groupby(acks, _token):
        run = list(group)
        ids = [ack.delivery.job_id for ack in run]
        if len(ids) < SHORTEST_RUN:
            return False
        values = (ids[0], ids[-1], token)
        found = connection.execute(SQL["alike"], values).fetchone()
        names, count, low, high, least, most = found
        if names != ",".join(ids) or count != len(ids) or names.count(",") != count - 1:
            return False
        if high - low != count - 1 or least != most:
            return False
        seqs = range(low, high + 1)
        places += seqs
        if most:
            results = zip(seqs, [ack.result for ack in run], strict=True)
            kept += [(seq, result.codec, result.data) for seq, result in results if result]
    update_many(connection, SQL["succeed"], (now, now), places)
    insert_many(connection, SQL["insert_results"], kept)
    return True


def _job_id(ack: Ack) -> str:
    return ack.delivery.job_id


def _token(ack: Ack) -> int:
    return ack.delivery.token


def _examine(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The columns of statement ``examine``, by job id."""
    found: dict[str, tuple[Any, ...]] = {}
    if len(ids) >= SHORTEST_RUN:
        # Ids and places both ascend, mostly: then those between two jobs are quicker to find.
        low, high = connection.execute(SQL["span"], (min(ids), max(ids))).fetchone()
        if low is not None and high - low < 2 * len(ids):
            rows = connection.execute(SQL["examine_between"], (low, high)).fetchall()
            found = {row[1]: row for row in rows}
    others = [job_id for job_id in ids if job_id not in found] if found else ids
    if others:
        rows = connection.execute(SQL["examine"], (json_of(others),)).fetchall()
        found.update((row[1], row) for row in rows)
    return found


def _succeed(connection: sqlite3.Connection, acked: Sequence[Acked], now: float) -> list[Readied]:
    readied: list[Readied] = []
    update_many(connection, SQL["succeed"], (now, now), [seq for _, seq, _, _, _ in acked])
    insert_many(
        connection,
        SQL["insert_results"],
        [
            (seq, ack.result.codec, ack.result.data)
            for ack, seq, keep_result, _, _ in acked
            if keep_result and ack.result is not None
        ],
    )
    dependencies.let_go(connection, [seq for _, seq, _, _, parents in acked if parents])
    for ack, _, _, _, _ in acked:
        if ack.spawn:
            readied += workflows.spawn(connection, ack.delivery.job_id, ack.spawn, now)
    if dependencies.any_edges(connection):
        results = {ack.delivery.job_id: ack.result for ack, _, _, _, _ in acked}
        unkept = {
            a.delivery.job_id for a, _, keep, result_ttl, _ in acked if not keep or result_ttl <= 0
        }
        readied += dependencies.feed(connection, results, unkept, now)
    forgotten = [seq for _, seq, _, result_ttl, _ in acked if result_ttl <= 0]
    if forgotten:
        connection.execute(SQL["delete"], (json_of_numbers(forgotten),))
    return readied


def _settle_others(
    connection: sqlite3.Connection, settlements: Sequence[tuple[int, Settlement]], now: float
) -> tuple[list[Readied], list[Departure]]:
    rows = load(connection, [seq for seq, _ in settlements])
    departures = departures_of(rows.values())
    for seq, settlement in settlements:
        row = rows[seq]
        row.settled_as = KINDS[type(settlement)]
        if not (isinstance(settlement, Defer) and settlement.park):
            row.unpark()
        if isinstance(settlement, RetryLater) and settlement.envelope is not None:
            replace(connection, row, settlement.envelope)
            departures += departures_of([row])
        _APPLY[type(settlement)](row, settlement, now)
        if row.limits and isinstance(settlement, Release) and row.state == JobState.QUEUED:
            departures.append(Departure(row.limits, row.queue, row.priority, refunded=True))
    readied = write_back(connection, rows.values(), now)
    for seq, settlement in settlements:
        if isinstance(settlement, Delegate) and rows[seq].phase == WAITING:
            readied += workflows.delegate(connection, seq, settlement.jobs, settlement.to, now)
    return readied, departures


def _delegate(row: Row, settlement: Delegate, now: float) -> None:
    row.move(Event.REVOKE if row.cancel_requested else Event.DELEGATE, now)


def _retry(row: Row, settlement: RetryLater, now: float) -> None:
    failure = settlement.failure
    row.note(Event.RETRY, now, f"{failure.type}: {failure.message}")
    row.blame(failure)
    row.attempt += 1
    back(row, Event.RETRY, now, now + settlement.delay)


def _nack(row: Row, settlement: Nack, now: float) -> None:
    lose(row, Event.NACK, now, visible_at=now + settlement.delay, why=settlement.detail)


def _dead_letter(row: Row, settlement: DeadLetter, now: float) -> None:
    give_up(row, settlement.reason, now, settlement.failure)


def _defer(row: Row, settlement: Defer, now: float) -> None:
    row.deliveries -= 1
    if settlement.park:
        row.parked_reason = settlement.park
        row.parked_at = now if row.parked_at is None else row.parked_at
        row.park_until = row.parked_at + (settlement.park_ttl or 0.0)
    back(row, Event.DEFER, now, now + settlement.delay)


def _release(row: Row, settlement: Release, now: float) -> None:
    row.deliveries -= 1
    row.yields += 1
    back(row, Event.RELEASE, now, row.visible_at)


def _expire(row: Row, settlement: Expire, now: float) -> None:
    row.move(Event.EXPIRE, now)


def _revoke(row: Row, settlement: Revoke, now: float) -> None:
    row.move(Event.REVOKE, now)


_APPLY: dict[type[Settlement], Callable[[Row, Any, float], None]] = {
    Delegate: _delegate,
    RetryLater: _retry,
    Nack: _nack,
    DeadLetter: _dead_letter,
    Defer: _defer,
    Release: _release,
    Expire: _expire,
    Revoke: _revoke,
}


def extend(
    connection: sqlite3.Connection, deliveries: Sequence[Delivery], lease_until: float
) -> list[LeaseStatus]:
    """See `taskmq.transport.Reserver.extend`."""
    found = _holders(connection, deliveries)
    held = [seq for seq, status in found if status is not LeaseStatus.LOST]
    if held:
        connection.execute(SQL["extend"], (lease_until, json_of_numbers(held)))
    return [status for _, status in found]


def check(connection: sqlite3.Connection, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
    """See `taskmq.transport.Reserver.check`."""
    return [status for _, status in _holders(connection, deliveries)]


def _holders(
    connection: sqlite3.Connection, deliveries: Sequence[Delivery]
) -> list[tuple[int, LeaseStatus]]:
    """For each delivery its place in the store, and what is left of it."""
    ids = json_of([delivery.job_id for delivery in deliveries])
    rows = {row[1]: row for row in connection.execute(SQL["holders"], (ids,)).fetchall()}
    found: list[tuple[int, LeaseStatus]] = []
    for delivery in deliveries:
        seq, _, phase, token, asked_to_stop = rows.get(delivery.job_id, (0, "", -1, -1, 0))
        status = ASKED[asked_to_stop]
        current = phase == RUNNING and token == delivery.token
        found.append((seq, status if current else LeaseStatus.LOST))
    return found
