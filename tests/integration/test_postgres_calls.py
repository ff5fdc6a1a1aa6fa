"""Round trips: one for each exchange, whatever its size; a bounded wait for the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.errors import (
    IdempotencyConflict,
    QueueFull,
    TransportUnavailable,
    UnknownDependency,
)
from taskmq.ids import new_id
from taskmq.limits import Capacity, Fair, Limit
from taskmq.records import Failure, JobFilter
from taskmq.states import JobState
from taskmq.testing import FakeClock
from taskmq.transport import (
    Ack,
    Delegate,
    Delivery,
    LeaseStatus,
    Release,
    Reservation,
    RetryLater,
    Settled,
    Settlement,
)
from taskmq.transports.postgres import PostgresTransport, from_url

FAILURE = Failure(type="builtins.ValueError", message='a\0b "c" \\ {d}')


def job(**fields: object) -> Sealed:
    given = {"v": 1, "id": new_id(), "task": "demo.task", "queue": "q", **fields}
    return seal(Envelope(**given), limit=100_000)  # type: ignore[arg-type]


def wanted(limit: int = 128, **fields: object) -> Reservation:
    given = {"queues": {"q": 1}, "worker": "w", "lease": 60.0, "limit": limit, **fields}
    return Reservation(**given)  # type: ignore[arg-type]


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresTransport]:
    store = from_url(postgres_url, clock=SystemClock())
    store.database.prepare()
    yield store
    store.close()


class Trips:
    """Counts round trips."""

    def __init__(self, store: PostgresTransport) -> None:
        self._database = store.database
        self._before = self._database.round_trips

    def taken(self) -> int:
        before, self._before = self._before, self._database.round_trips
        return self._before - before


def test_one_round_trip_whatever_the_size(store: PostgresTransport) -> None:
    trips = Trips(store)
    store.enqueue([job() for _ in range(512)])
    assert trips.taken() == 1
    done: list[Settlement] = []
    for _ in range(4):
        answer = store.exchange(done, wanted())
        assert len(answer.deliveries) == 128
        assert trips.taken() == 1
        done = [Ack(delivery, Payload("json", b"1")) for delivery in answer.deliveries]
    store.settle(done)
    assert trips.taken() == 1


def test_one_round_trip_for_every_kind_of_job_and_settlement(store: PostgresTransport) -> None:
    trips = Trips(store)
    first = job()
    limits = (Limit("concurrency", "few", 20),)
    others = [job(after=(Dependency(first.envelope.id),), limits=limits) for _ in range(30)]
    store.enqueue([first, *others])
    assert trips.taken() == 1
    (delivery,) = store.exchange((), wanted()).deliveries
    assert trips.taken() == 1
    got = store.exchange([Ack(delivery)], wanted()).deliveries
    assert len(got) == 20
    assert trips.taken() == 1

    def settle(number: int, held: Delivery) -> Settlement:
        kinds = (Ack(held), Release(held), RetryLater(held, 0.0, FAILURE))
        return kinds[number % 3]

    got = store.exchange([settle(n, held) for n, held in enumerate(got)], wanted()).deliveries
    assert len(got) == 20
    assert trips.taken() == 1


def test_times_are_the_servers_own(store: PostgresTransport, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        assert row is not None
        sealed = job()
        store.enqueue([sealed])
        (record,) = store.get([sealed.envelope.id])
        assert record is not None
        assert record.enqueued_at >= row[0]


def test_text_of_any_kind_travels(store: PostgresTransport) -> None:
    name = 'a "quoted" \\ {name}, NULL, %s'
    sealed = [job(queue=name), job(id=name, queue=name, task=name, workflow=name)]
    assert [one.created for one in store.enqueue(sealed)] == [True, True]
    got = store.reserve(wanted(queues={name: 1}, worker=name))
    assert [(held.job_id, held.queue) for held in got][1] == (name, name)
    store.settle([RetryLater(held, 0.0, FAILURE) for held in got])
    (record,) = store.get([name])
    assert record is not None
    assert record.failure == FAILURE
    assert record.history[0].detail == f"builtins.ValueError: {FAILURE.message}"


def test_a_settlement_whose_jobs_are_refused_changes_nothing(store: PostgresTransport) -> None:
    first = job()
    store.enqueue([first])
    (held,) = store.reserve(wanted())
    orphan = job(after=(Dependency("unknown"),))
    for settlement in (Ack(held, spawn=[orphan]), Delegate(held, [orphan], orphan.envelope.id)):
        with pytest.raises(
            UnknownDependency, match=f"{orphan.envelope.id}.* waits for job unknown"
        ):
            store.settle([settlement])
    store.enqueue([job(key="k")])
    with pytest.raises(IdempotencyConflict, match="key 'k' is in use"):
        store.settle([Ack(held, spawn=[job(key="k", task="demo.other")])])
    one_more = job()
    with pytest.raises(QueueFull):
        store.settle([Ack(held, spawn=[Sealed(one_more.envelope, one_more.data, Capacity(1))])])
    assert store.settle([Ack(held)]) == [Settled.DONE]


def test_maintenance_deletes_later_what_somebody_holds(postgres_url: str) -> None:
    """Jobs that have succeeded are in lists: one that is locked goes to the end of its own."""
    clock = FakeClock()
    store = from_url(postgres_url, clock=clock)
    ids = [one.job_id for one in store.enqueue([job(result_ttl=10.0) for _ in range(4)])]
    store.settle([Ack(held) for held in store.reserve(wanted())])
    assert store.maintain().purged == 0
    clock.advance(11.0)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT 1 FROM taskmq.jobs WHERE id = %s FOR SHARE", [ids[1]])
        assert [store.maintain(limit).purged for limit in (1, 1, 1000, 1000)] == [1, 0, 2, 0]
        assert [record is not None for record in store.get(ids)] == [False, True, False, False]
    assert store.maintain().purged == 1
    assert store.get(ids) == [None] * 4
    store.close()


def test_workflows_take_one_round_trip(store: PostgresTransport) -> None:
    """Jobs that are added, and what delegates, in the exchange that settles the others."""
    store.enqueue([job() for _ in range(64)])
    held = store.reserve(wanted(limit=64))
    settlements: list[Settlement] = []
    for number, delivery in enumerate(held):
        more = [job(), job()]
        if number % 2:
            settlements.append(Ack(delivery, spawn=more))
        else:
            settlements.append(Delegate(delivery, more, more[0].envelope.id))
    trips = Trips(store)
    exchange = store.exchange(settlements, wanted(limit=128))
    assert trips.taken() == 1
    assert set(exchange.settled) == {Settled.DONE}
    assert len(exchange.deliveries) == 128


def test_workers_claim_beside_each_other(store: PostgresTransport, postgres_url: str) -> None:
    """What another transaction has claimed and not committed is skipped, not waited for."""
    ids = [one.job_id for one in store.enqueue([job() for _ in range(4)])]
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT seq FROM taskmq.jobs WHERE phase = 2 ORDER BY seq LIMIT 2 FOR UPDATE")
        got = store.reserve(wanted(10))
        assert [held.job_id for held in got] == ids[2:]


def test_server_that_does_not_answer_is_given_up(postgres_url: str) -> None:
    store = from_url(f"{postgres_url}?timeout=0.5", clock=SystemClock())
    store.database.prepare()
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE taskmq.jobs")
        with pytest.raises(TransportUnavailable, match="cannot be reached"):
            store.enqueue([job()])
    assert len(store.enqueue([job()])) == 1
    store.close()


def test_lost_connection_is_noticed_before_the_next_call(
    store: PostgresTransport, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as other:
        for pid in store.database.pids:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert len(store.enqueue([job()])) == 1


def test_more_threads_than_connections_wait_for_each_other(postgres_url: str) -> None:
    store = from_url(f"{postgres_url}?connections=2&timeout=30", clock=SystemClock())
    store.database.prepare()
    errors: list[Exception] = []

    def produce() -> None:
        try:
            for _ in range(10):
                store.enqueue([job()])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=produce) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert store.stats(["q"])[0].ready == 80
    assert len(store.database.pids) <= 2
    store.close()


def test_a_job_that_is_stored_within_a_transaction_meets_its_limit(
    store: PostgresTransport, postgres_url: str
) -> None:
    """A limit that was stored after a worker has looked is kept all the same."""
    limits = (Limit("concurrency", "one", 1),)
    with psycopg.connect(postgres_url) as connection:
        for _ in range(2):
            store.enqueue_within([job(limits=limits)], connection)
        store.enqueue([job()])
        assert len(store.reserve(wanted(10))) == 1
    assert len(store.reserve(wanted(10))) == 1
    assert store.stats(["q"])[0].held == 1
    assert {record.state for record in store.find(JobFilter())} == {
        JobState.RUNNING,
        JobState.QUEUED,
    }


def test_exchanges_go_beside_each_other_once_turns_are_over(
    store: PostgresTransport, postgres_url: str
) -> None:
    """The line is remembered, and keeps nobody waiting; its next job takes its turn."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def is_strict() -> bool:
            row = connection.execute("SELECT taskmq.is_strict()").fetchone()
            assert row is not None
            return bool(row[0])

        store.enqueue([job(fair=Fair("a")), job(fair=Fair("b")), job(queue="other")])
        assert is_strict()
        store.settle([Ack(delivery) for delivery in store.reserve(wanted())])
        assert not is_strict()
        store.enqueue([job(queue="other")])
        store.enqueue([job(queue="other"), job(queue="other")])
        assert not is_strict()
        for batch in ([job()], [job(), job()], [job(key="k")]):
            store.enqueue(batch)
        assert is_strict()
        assert len(store.reserve(wanted())) == 4


def test_ended_named_leases_are_forgotten(postgres_url: str) -> None:
    clock = FakeClock()
    store = from_url(postgres_url, clock=clock)
    for number in range(5):
        assert store.acquire(f"once:{number}", "w", 10.0)
    assert store.acquire("leader", "w", 30.0)
    clock.advance(10.0)
    store.maintain()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        assert connection.execute("SELECT name FROM taskmq.leases").fetchall() == [("leader",)]
    store.close()


def test_a_delivery_that_is_named_twice_is_held_twice(store: PostgresTransport) -> None:
    store.enqueue([job(), job()])
    one, other = store.reserve(wanted())
    store.settle([Ack(other)])
    named = [one, other, one]
    expected = [LeaseStatus.HELD, LeaseStatus.LOST, LeaseStatus.HELD]
    assert store.extend(named, 60.0) == store.check(named) == expected
