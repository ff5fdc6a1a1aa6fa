"""Workflows on one PostgreSQL whose members end at the same time."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import psycopg
import pytest
from tests.integration.test_postgres_concurrency import FAILURE, job, together

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Dependency, Sealed
from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Delegate, Delivery, Reservation, Settlement
from taskmq.transports.postgres import PostgresTransport, from_url

WIDTH = int(os.environ.get("FAN_IN", "1500"))
BATCH = 128
PATIENCE = 100.0
RESULT = Payload("json", b"1")
Open = Callable[[], PostgresTransport]


@pytest.fixture
def open_store(postgres_url: str) -> Iterator[Open]:
    opened: list[PostgresTransport] = []

    def open_one() -> PostgresTransport:
        opened.append(from_url(f"{postgres_url}?timeout=60", clock=SystemClock()))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def wanted(limit: int, queue: str = "q") -> Reservation:
    return Reservation(queues={queue: 1}, worker="w", lease=600.0, limit=limit)


def waiting_for(jobs: Sequence[Sealed], **fields: Any) -> Sealed:
    after = tuple(Dependency(each.envelope.id) for each in jobs)
    return job(queue="joins", after=after, **fields)


def lose_all(delivery: Delivery) -> Settlement:
    return DeadLetter(delivery, "error", FAILURE)


def lose_some(delivery: Delivery) -> Settlement:
    return lose_all(delivery) if delivery.token % 3 == 0 else Ack(delivery, RESULT)


def succeed(delivery: Delivery) -> Settlement:
    return Ack(delivery, RESULT)


def spawn_or_delegate(delivery: Delivery) -> Settlement:
    more = [job(queue="more"), job(queue="more")]
    if delivery.token % 2:
        return Ack(delivery, RESULT, spawn=more)
    return Delegate(delivery, more, more[0].envelope.id)


@pytest.mark.parametrize("end", [succeed, lose_some, lose_all, spawn_or_delegate])
def test_members_that_end_at_once_count_each(
    open_store: Open, postgres_url: str, end: Callable[[Delivery], Settlement]
) -> None:
    """Three workers settle the members of crossing fan-ins at the same moment: no decrement is
    lost, a join and a handler run once, and nobody locks anybody else out."""
    stores = [open_store() for _ in range(3)]
    chance = random.Random(1)
    for _ in range(5):
        members = [job() for _ in range(12)]
        joins = []
        for run_if in ("succeeded", "finished", "failed"):
            joins += [waiting_for(chance.sample(members, 8), run_if=run_if) for _ in range(2)]
        chance.shuffle(joins)
        stores[0].enqueue([*members, *joins])
        held = [list(store.reserve(wanted(4))) for store in stores]
        barrier = threading.Barrier(3)

        def settle(store: PostgresTransport, mine: list[Delivery], at: threading.Barrier) -> None:
            at.wait(PATIENCE)
            store.settle([end(delivery) for delivery in mine[:2]])
            store.settle([end(delivery) for delivery in mine[2:]])

        pairs = zip(stores, held, strict=True)
        together(*(partial(settle, store, mine, barrier) for store, mine in pairs))
        while more := stores[1].reserve(wanted(100, "more")):
            stores[1].settle([Ack(delivery, RESULT) for delivery in more])
        ran = [delivery.job_id for delivery in stores[2].reserve(wanted(100, "joins"))]
        lost = {
            delivery.job_id
            for mine in held
            for delivery in mine
            if isinstance(end(delivery), DeadLetter)
        }
        expected = []
        for join in joins:
            parents = {each.job for each in join.envelope.after}
            runs = {
                "succeeded": not parents & lost,
                "finished": True,
                "failed": bool(parents & lost),
            }
            if runs[join.envelope.run_if]:
                expected.append(join.envelope.id)
        assert ran == expected
    for store in stores:
        store.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert row == (0,)


def test_failing_fast_from_two_sides(open_store: Open) -> None:
    """Two members fail at once, in two workers: the others are revoked, the handler runs once."""
    stores = [open_store() for _ in range(2)]
    for number in range(5):
        fields: dict[str, Any] = {"workflow": f"w{number}", "fail_fast": True}
        members = [job(**fields) for _ in range(2)]
        rest = [job(queue="rest", **fields) for _ in range(10)]
        handler = waiting_for(members + rest, run_if="failed", **fields)
        stores[0].enqueue([*members, *rest, handler])
        held = [store.reserve(wanted(1))[0] for store in stores]
        pairs = zip(stores, held, strict=True)
        together(*(partial(store.settle, [lose_all(each)]) for store, each in pairs))
        records = stores[0].get([one.envelope.id for one in rest])
        assert {record.state for record in records if record} == {JobState.REVOKED}
        (delivery,) = stores[1].reserve(wanted(5, "joins"))
        assert delivery.job_id == handler.envelope.id
        assert len(delivery.losses or ()) == 12
        stores[0].settle([Ack(delivery)])


def test_wide_fan_in_costs_the_same_for_each_member(open_store: Open) -> None:
    """A batch at the end costs about what one at the start does. FAN_IN=10000 is the big
    one."""
    store = open_store()
    members = [job() for _ in range(WIDTH)]
    for start in range(0, WIDTH, 1000):
        store.enqueue(members[start : start + 1000])
    store.enqueue([waiting_for(members)])
    done: list[Settlement] = []
    seconds: list[float] = []
    while True:
        began = time.perf_counter()
        held = store.exchange(done, wanted(BATCH)).deliveries
        seconds.append(time.perf_counter() - began)
        if not held:
            break
        done = [Ack(delivery, RESULT) for delivery in held]
    quarter = len(seconds) // 4
    first, last = sorted(seconds[1 : quarter + 1]), sorted(seconds[-quarter - 1 : -1])
    early, late = first[quarter // 2], last[quarter // 2]
    print(f"{WIDTH:,} members: {sum(seconds):.2f} s; a batch {early:.4f} s, then {late:.4f} s")
    assert late < 5 * early + 0.1
    (join,) = store.reserve(wanted(5, "joins"))
    assert len(join.inputs or ()) == WIDTH
    store.settle([Ack(join)])
    assert store.find(JobFilter(states=(JobState.WAITING,))) == []
