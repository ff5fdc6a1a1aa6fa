"""Wake-ups: LISTEN, its loss, and looking instead where a pooler gives no session."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.servers import fresh_name
from tests.services import PgBouncer, Postgres
from tests.waiting import PATIENCE, wait_for

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.testing.conformance import Case, cases, run_case
from taskmq.transport import Ack, Reservation
from taskmq.transports.postgres import PostgresTransport, from_url
from taskmq.transports.postgres.listener import FIRST_INTERVAL

WANTED = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=10)


def job() -> Sealed:
    return seal(Envelope(v=1, id=new_id(), task="demo.task", queue="q"), limit=10_000)


def listening(url: str, schema: str = "taskmq") -> list[int]:
    """The sessions that hold the lock of those who listen to queues."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall()
    return [pid for (pid,) in rows]


def test_listeners_of_a_process_share_one_connection(postgres_url: str) -> None:
    store = from_url(postgres_url, clock=SystemClock())
    listeners = [store.listen(["q"]) for _ in range(20)]
    assert len(listening(postgres_url)) == 1
    for listener in listeners:
        listener.close()
    store.close()
    wait_for(lambda: not listening(postgres_url))


def test_nothing_is_notified_while_nobody_listens(postgres_url: str) -> None:
    store = from_url(postgres_url, clock=SystemClock())
    store.paused()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute('LISTEN "taskmq.queues"')
        store.enqueue([job()])
        assert list(connection.notifies(timeout=0.2)) == []
        listener = store.listen(["q"])
        store.enqueue([job(), job()])
        (heard,) = connection.notifies(timeout=PATIENCE, stop_after=1)
    assert heard.payload == 'w["q"]', "one for the transaction, with the queue's name"
    listener.close()
    store.close()


def test_own_reservation_wakes_others_only(postgres_url: str) -> None:
    store, other = (from_url(postgres_url, clock=SystemClock()) for _ in range(2))
    store.enqueue([job()])
    mine, theirs = store.listen(["q"]), other.listen(["q"])
    mine.clear()
    theirs.clear()
    assert len(store.reserve(WANTED)) == 1
    assert theirs.wait(PATIENCE)
    assert not mine.wait(0.05)
    store.close()
    other.close()


def test_lost_connection_wakes_and_is_made_again(postgres_url: str) -> None:
    store = from_url(postgres_url, clock=SystemClock())
    listener = store.listen(["q"])
    listener.clear()
    (pid,) = listening(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert listener.wait(PATIENCE), "something may have been missed"
    wait_for(lambda: listening(postgres_url) not in ([], [pid]))
    listener.clear()
    store.enqueue([job()])
    assert listener.wait(PATIENCE)
    store.close()


def _child(url: str, store: PostgresTransport | None, answers: Callable[[object], None]) -> None:
    assert store is not None
    listener = store.listen(["q"])
    listener.clear()
    store.enqueue([job()])
    answers((listener.wait(PATIENCE), len(store.reserve(WANTED))))


def test_a_forked_child_has_connections_of_its_own(postgres_url: str) -> None:
    store = from_url(postgres_url, clock=SystemClock())
    listener = store.listen(["q"])
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(False)
    child = context.Process(target=_child, args=(postgres_url, store, writer.send))
    child.start()
    assert reader.poll(PATIENCE)
    assert reader.recv() == (True, 1)
    child.join(PATIENCE)
    listener.clear()
    store.enqueue([job()])
    assert listener.wait(PATIENCE)
    assert len(store.reserve(WANTED)) == 1
    store.close()


@pytest.fixture(scope="module")
def quiet_server(require_server: Callable[[str], None]) -> Iterator[Postgres]:
    """A server where nobody else commits: who waits behind a pooler looks at its snapshot."""
    require_server(Postgres.program)
    with Postgres() as server:
        yield server


@pytest.fixture
def pooler_url(start_service: Callable[..., PgBouncer], quiet_server: Postgres) -> Iterator[str]:
    pooler = start_service(PgBouncer, quiet_server, {"default_pool_size": 2})
    name = fresh_name()
    quiet_server.create_database(name)
    yield f"{pooler.url_of(name)}?pooler=transaction"
    quiet_server.drop_database(name)


def test_behind_a_pooler_in_transaction_mode(pooler_url: str) -> None:
    """Six threads share two sessions of the server, in which nothing is left behind."""
    store = from_url(pooler_url, clock=SystemClock())
    assert not store.capabilities.wakeups
    assert any("pooler=transaction" in each for each in store.capabilities.limitations)
    store.enqueue([job() for _ in range(300)])
    done: list[str] = []

    def work() -> None:
        while held := store.reserve(WANTED):
            store.settle([Ack(one) for one in held])
            done.extend(one.job_id for one in held)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(set(done)) == len(done) == 300
    store.close()


def test_waiting_behind_a_pooler_looks(pooler_url: str) -> None:
    store, other = (from_url(pooler_url, clock=SystemClock()) for _ in range(2))
    listener = store.listen(["q"])
    listener.clear()
    assert not listener.wait(0.05)
    timer = threading.Timer(0.3, lambda: other.enqueue([job()]))
    timer.start()
    assert listener.wait(PATIENCE)
    timer.join()
    store.close()
    other.close()


def test_behind_a_pooler_others_commits_do_not_keep_workers_looking(
    pooler_url: str, quiet_server: Postgres
) -> None:
    """A snapshot is the whole server's: intervals grow all the same while no job is got."""
    store = from_url(pooler_url, clock=SystemClock())
    listener = store.listen(["q"])
    with psycopg.connect(quiet_server.url, autocommit=True) as other:

        def look(times: int) -> float:
            started = time.monotonic()
            for _ in range(times):
                listener.clear()
                other.execute("SELECT pg_current_xact_id()")
                assert listener.wait(PATIENCE)
                store.reserve(WANTED)
            return time.monotonic() - started

        assert look(6) > sum(FIRST_INTERVAL * 2**n for n in range(6)) * 0.9
        store.enqueue([job() for _ in range(200)])
        assert look(20) < 5.0, "each of these got jobs: 20 of the longest would be 18 s"
    store.close()


LISTENING = [case for case in cases() if case.facet == "listen" and "wakeups" not in case.needs]


@pytest.mark.parametrize("case", LISTENING[:3], ids=str)
def test_listeners_keep_their_promises_there(case: Case, pooler_url: str) -> None:
    outcome = run_case(case, f"{pooler_url}&application_name={{case}}")
    if outcome.error is not None:
        raise outcome.error
