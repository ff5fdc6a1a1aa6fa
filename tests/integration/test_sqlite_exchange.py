"""The exchange on SQLite: cheap at any depth, silent at rest, exact at its limits."""

import random
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskmq.codec import Payload
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.records import Failure, JobFilter
from taskmq.states import JobState
from taskmq.testing import FakeClock
from taskmq.transport import Ack, Exchange, Release, Reservation, RetryLater, Settled, Settlement
from taskmq.transports.sqlite import database, from_url, reserve, rows

NULL = Payload("json", b"null")
FAILURE = Failure(type="ValueError", message="no")


def job(**fields: Any) -> Sealed:
    values = {"id": new_id(), "task": "demo.task", "queue": "q", **fields}
    return seal(Envelope(v=1, **values), 1 << 20)


def jobs(count: int, **fields: Any) -> list[Sealed]:
    return [job(**fields) for _ in range(count)]


class Store:
    """A store, and the count of what SQLite does for it."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.path = path
        self.transport = from_url(f"sqlite:///{path}", clock=self.clock)

    def exchange(
        self, settlements: list[Settlement] | None = None, limit: int = 10, **queues: int
    ) -> Exchange:
        wanted = Reservation(queues=queues or {"q": 1}, worker="w", lease=60.0, limit=limit)
        return self.transport.exchange(settlements or [], wanted)

    def steps(self) -> int:
        """Instructions of SQLite's machine for settling ten and reserving ten."""
        held = self.exchange().deliveries
        connection: sqlite3.Connection = self.transport._database._writer._connection  # type: ignore[assignment]  # it is open
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection.set_progress_handler(count, 1)
        answer = self.exchange([Ack(delivery, NULL) for delivery in held])
        connection.set_progress_handler(None, 1)
        assert len(answer.deliveries) == 10
        self.transport.settle([Ack(delivery) for delivery in answer.deliveries])
        return steps


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "jobs.db")
    yield store
    store.transport.close()


def test_cost_of_an_exchange_does_not_depend_on_what_is_stored(store: Store) -> None:
    store.transport.enqueue(jobs(100))
    shallow = store.steps()
    store.transport.enqueue(jobs(20_000))
    store.transport.enqueue(jobs(5_000, eta=store.clock.now() + 3600))
    store.transport.enqueue(jobs(1_000, expires_at=store.clock.now() + 3600))
    for _ in range(5):
        held = store.exchange(limit=1000).deliveries
        store.transport.settle([Ack(delivery, NULL) for delivery in held])
    assert store.steps() <= shallow * 1.05


def test_worker_that_finds_nothing_does_not_write(store: Store) -> None:
    store.transport.enqueue([job(eta=store.clock.now() + 60)])
    files = [store.path, store.path.with_name("jobs.db-wal")]
    before = [(file.stat().st_mtime_ns, file.read_bytes()) for file in files]
    for limit in (10, 0):
        answer = store.exchange(limit=limit)
        assert answer.deliveries == ()
        assert answer.next_due_at == store.clock.now() + 60
    assert store.transport.maintain().purged == 0
    assert store.transport.unpark(["demo.task"]) == 0
    assert [(file.stat().st_mtime_ns, file.read_bytes()) for file in files] == before


def test_looking_only_says_what_is_there_without_taking_it(store: Store) -> None:
    store.transport.enqueue([job(priority=3)])
    assert store.exchange(limit=0) == Exchange(waiting_priority=3)
    assert len(store.exchange().deliveries) == 1


def test_follower_that_asks_for_leadership_does_not_write(store: Store) -> None:
    assert store.transport.acquire("leader", "a", 60.0)
    before = store.transport._database.version()
    assert not store.transport.acquire("leader", "b", 60.0)
    assert store.transport._database.version() == before


def test_more_due_than_an_exchange_looks_after_is_due_at_once_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "TIDY_LIMIT", 10)
    now = store.clock.now()
    store.transport.enqueue(jobs(25, eta=now + 1))
    store.transport.enqueue(jobs(25, eta=now + 1, expires_at=now + 1))
    store.clock.advance(1)
    delivered, dropped, rounds = 0, 0, 0
    while True:
        answer = store.exchange(limit=100)
        delivered, dropped = delivered + len(answer.deliveries), dropped + len(answer.dropped)
        rounds += 1
        if answer.next_due_at != now + 1:
            break
    assert (delivered, dropped) == (25, 25)
    assert rounds == 3


def test_expired_jobs_of_the_top_level_neither_run_nor_hide_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "TIDY_LIMIT", 1)
    now = store.clock.now()
    store.transport.enqueue(jobs(3, queue="a", priority=5, expires_at=now + 1))
    store.transport.enqueue(jobs(2, queue="b"))
    store.clock.advance(1)
    seen = [store.exchange(a=1, b=1) for _ in range(4)]
    assert [len(answer.dropped) for answer in seen] == [1, 1, 1, 0]
    assert sum(len(answer.deliveries) for answer in seen) == 2


def test_success_leaves_a_small_row_and_no_envelope(store: Store) -> None:
    store.transport.enqueue(jobs(50, args=_raw("x" * 10_000)))
    held = store.exchange(limit=50).deliveries
    store.transport.settle([Ack(delivery, Payload("json", b'"r"')) for delivery in held])
    (record, *_) = store.transport.get([held[0].job_id])
    assert record is not None
    assert (record.state, record.envelope) == (JobState.SUCCEEDED, b"")
    assert record.result == Payload("json", b'"r"')
    counts = store.transport._database.read(_counts)
    assert counts == {"jobs": 50, "envelopes": 0, "results": 50}


def test_envelopes_may_be_replaced_by_smaller_and_by_larger_ones(store: Store) -> None:
    """Small ones are in the rows of their jobs, large ones apart."""
    small, large = "s", "l" * 2 * rows.MOST_IN_ROW
    texts = [small, large, small, large]
    first, *others = (job(id="a", args=_raw(text)) for text in texts)
    store.transport.enqueue([first, job(id="b", args=_raw(large))])
    for sealed, apart in zip(others, (2, 1, 2), strict=True):
        delivery, other = store.exchange().deliveries
        store.transport.settle([Release(other), RetryLater(delivery, 0.0, FAILURE, sealed)])
        (record,) = store.transport.get(["a"])
        assert record is not None
        assert record.envelope == sealed.data
        assert store.transport._database.read(_counts)["envelopes"] == apart
    held = store.exchange().deliveries
    assert held[0].envelope == others[-1].data
    store.transport.settle([Ack(delivery) for delivery in held])
    assert store.transport._database.read(_counts)["envelopes"] == 0


@pytest.mark.parametrize("chosen", [range(40), range(3, 40), range(0, 40, 3), [*range(9), 12, 20]])
def test_only_the_jobs_that_are_settled_end_wherever_they_are(
    store: Store, chosen: Sequence[int]
) -> None:
    """Those that follow each other are found and changed together."""
    batch = jobs(40)
    random.Random(1).shuffle(batch)  # their ids do not ascend
    store.transport.enqueue(batch[:20])
    store.transport.enqueue(batch[20:])
    held = store.exchange(limit=40).deliveries
    assert [delivery.job_id for delivery in held] == [sealed.envelope.id for sealed in batch]
    ended = [held[place] for place in chosen]
    random.Random(2).shuffle(ended)
    answer = store.exchange([Ack(delivery) for delivery in ended]).settled
    assert set(answer) == {Settled.DONE}
    states = {record.id: record.state for record in store.transport.find(JobFilter(limit=100))}
    done = {delivery.job_id for delivery in ended}
    assert {id for id, state in states.items() if state is JobState.SUCCEEDED} == done
    assert {id for id, state in states.items() if state is JobState.RUNNING} == states.keys() - done
    again = store.transport.settle([Ack(delivery) for delivery in held])
    assert [one is Settled.REPEATED for one in again] == [each.job_id in done for each in held]


def test_many_successes_keep_their_own_results_and_count_once(store: Store) -> None:
    """In one look at all of them, if nothing is in the way of that."""
    store.transport.enqueue(jobs(30))
    store.transport.enqueue(jobs(30, store_result=False))
    held = store.exchange(limit=60).deliveries
    acks = [Ack(delivery, Payload("json", b"%d" % n)) for n, delivery in enumerate(held)]
    random.Random(3).shuffle(acks)
    assert set(store.transport.settle(acks)) == {Settled.DONE}
    records = store.transport.find(JobFilter(limit=100))
    assert {record.state for record in records} == {JobState.SUCCEEDED}
    wanted = [Payload("json", b"%d" % n) for n in range(30)]
    assert [record.result for record in records] == [*wanted, *[None] * 30]
    assert set(store.transport.settle(acks)) == {Settled.REPEATED}


@pytest.mark.parametrize("stale", [0, 7, 19])
def test_one_stale_settlement_among_many_is_refused_alone(store: Store, stale: int) -> None:
    store.transport.enqueue(jobs(20))
    held = list(store.exchange(limit=20).deliveries)
    store.transport.settle([Release(held[stale])])
    (again,) = store.exchange(limit=20).deliveries
    answers = list(store.transport.settle([Ack(delivery) for delivery in held]))
    assert [answers.pop(stale), *set(answers)] == [Settled.LEASE_LOST, Settled.DONE]
    assert store.transport.settle([Ack(again), *map(Ack, held[:9])])[0] is Settled.DONE


def test_ids_with_commas_are_not_taken_for_several(store: Store) -> None:
    names = [f"{n:02},{n:02}" for n in range(10)]
    store.transport.enqueue([job(id=name) for name in names])
    held = store.exchange(limit=10).deliveries
    parts = [part for name in names for part in name.split(",")]
    lost = [msgspec.structs.replace(held[0], job_id=part) for part in parts]
    assert set(store.transport.settle(list(map(Ack, lost)))) == {Settled.LEASE_LOST}
    assert set(store.transport.settle(list(map(Ack, held)))) == {Settled.DONE}


def test_large_and_binary_values_survive(store: Store) -> None:
    binary = bytes(range(256)) * 1000
    (answer,) = store.transport.enqueue([job(args=_raw("ü" * 100_000))])
    (delivery,) = store.exchange().deliveries
    store.transport.settle([Ack(delivery, Payload("mine", binary))])
    (record,) = store.transport.get([answer.job_id])
    assert record is not None
    assert record.result == Payload("mine", binary)


def test_file_shrinks_after_a_flood(store: Store) -> None:
    store.transport.enqueue(jobs(2_000, args=_raw("x" * 4_000), result_ttl=0.0))
    store.transport._database._writer.run(_checkpoint)
    full = store.path.stat().st_size
    for _ in range(2):
        held = store.exchange(limit=1_000).deliveries
        store.transport.settle([Ack(delivery) for delivery in held])
    for _ in range(6):
        store.transport.maintain()
    store.transport._database._writer.run(_checkpoint)
    assert store.path.stat().st_size < full / 2


def test_log_does_not_grow_without_end_below_readers_that_take_turns(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOG_LIMIT_BYTES", 1 << 20)
    monkeypatch.setattr(database, "SETTINGS", ())
    stop = threading.Event()
    readers = threading.Thread(target=_read_always, args=(store.path, stop))
    readers.start()
    for _ in range(100):
        store.transport.enqueue(jobs(10, args=_raw("x" * 10_000)))
        store.clock.advance(1.0)
    size = store.path.with_name("jobs.db-wal").stat().st_size
    stop.set()
    readers.join()
    assert size < 5 << 20, "10 MB were written"


def _read_always(path: Path, stop: threading.Event) -> None:
    """Two readers, of which one at least is reading at any moment."""
    readers = [sqlite3.connect(path, isolation_level=None) for _ in range(2)]
    for reader in readers:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM jobs").fetchone()
    while not stop.wait(0.002):
        readers.reverse()
        readers[0].execute("COMMIT")
        readers[0].execute("BEGIN")
        readers[0].execute("SELECT count(*) FROM jobs").fetchone()
    for reader in readers:
        reader.close()


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode([text]))


def _checkpoint(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    return {
        table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608  # our own names
        for table in ("jobs", "envelopes", "results")
    }
