"""A reservation that settles nothing, beside others: nobody waits for a lock while holding it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.limits import Limit
from taskmq.transport import Reservation
from taskmq.transports.postgres import PostgresTransport, from_url

WANTED = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=10)
SPECIAL_FROM_THE_SECOND_LOOK_ON = """
CREATE SEQUENCE public.looks;
CREATE OR REPLACE VIEW taskmq.special AS SELECT 1 AS found WHERE nextval('public.looks') > 1
"""
HOLD_ALONE = "SELECT pg_advisory_xact_lock(hashtext('taskmq'), 0)"
WAITS = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


def job(limits: tuple[Limit, ...] = ()) -> Sealed:
    made = Envelope(v=1, id=new_id(), task="demo.task", queue="q", limits=limits)
    return seal(made, limit=10_000)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresTransport]:
    with closing(from_url(postgres_url, clock=SystemClock())) as store:
        yield store


def test_what_somebody_is_just_taking_is_left_and_not_due(
    store: PostgresTransport, postgres_url: str
) -> None:
    store.enqueue([job()])
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT 1 FROM taskmq.jobs FOR UPDATE")
        answer = store.exchange((), WANTED)
        assert (answer.deliveries, answer.next_due_at) == ([], None)
    assert len(store.reserve(WANTED)) == 1


def test_what_shows_after_the_lock_was_taken_is_due_at_once(
    store: PostgresTransport, postgres_url: str
) -> None:
    sealed = job()
    store.enqueue([sealed])
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(SPECIAL_FROM_THE_SECOND_LOOK_ON)
        before = SystemClock().now()
        answer = store.exchange((), WANTED)
        assert answer.deliveries == []
        assert answer.next_due_at is not None
        assert before - 1 < answer.next_due_at <= SystemClock().now() + 1
    (held,) = store.reserve(WANTED)
    assert held.job_id == sealed.envelope.id


def test_it_waits_for_whoever_is_alone_and_then_keeps_limits(
    store: PostgresTransport, postgres_url: str
) -> None:
    store.enqueue([job()])
    limited = [job((Limit("concurrency", "k", 1),)) for _ in range(3)]
    answers: list[int] = []
    with psycopg.connect(postgres_url) as other:
        other.execute(HOLD_ALONE)
        thread = threading.Thread(target=lambda: answers.append(len(store.reserve(WANTED))))
        thread.start()
        with psycopg.connect(postgres_url, autocommit=True) as third:
            wait_for(lambda: third.execute(WAITS).fetchone() == (1,))
        assert answers == []
        store.enqueue_within(limited, other)
    thread.join(PATIENCE)
    assert answers == [2], "the plain one, and one of those that may not run beside each other"


def test_a_limit_holds_among_many_that_reserve_alone(
    store: PostgresTransport, postgres_url: str
) -> None:
    """Limited jobs come while others reserve: at most one of them is handed out."""
    limit = (Limit("concurrency", "k", 1),)
    held: list[str] = []
    done = threading.Event()
    stores = [from_url(postgres_url, clock=SystemClock()) for _ in range(3)]

    def reserve(mine: PostgresTransport) -> None:
        while not done.is_set():
            held.extend(one.job_id for one in mine.reserve(WANTED))

    threads = [threading.Thread(target=reserve, args=(mine,)) for mine in stores]
    for thread in threads:
        thread.start()
    plain: set[str] = set()
    limited: set[str] = set()
    for number in range(60):
        one = job(limit if number % 2 else ())
        (limited if number % 2 else plain).add(one.envelope.id)
        store.enqueue([one])
    wait_for(lambda: plain <= set(held))
    wait_for(lambda: limited & set(held))
    done.set()
    for thread in threads:
        thread.join(PATIENCE)
    for mine in stores:
        mine.close()
    assert len(held) == len(set(held)) == len(plain) + 1
