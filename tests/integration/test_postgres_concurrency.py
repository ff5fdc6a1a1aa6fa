"""Many workers on one PostgreSQL at once: what may not be exceeded is not, and nobody locks up."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.errors import QueueFull
from taskmq.ids import new_id
from taskmq.limits import Capacity, Fair, Limit
from taskmq.records import Failure, JobFilter
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Delivery, Release, Reservation, RetryLater, Settlement
from taskmq.transports.postgres import PostgresTransport, from_url

PATIENCE = 100.0
FAILURE = Failure(type="builtins.ValueError", message="broken")
Open = Callable[[], PostgresTransport]


def job(capacity: Capacity | None = None, **fields: object) -> Sealed:
    given = {"v": 1, "id": new_id(), "task": "demo.task", "queue": "q", **fields}
    made = seal(Envelope(**given), limit=100_000)  # type: ignore[arg-type]
    return Sealed(made.envelope, made.data, capacity)


@pytest.fixture
def open_store(postgres_url: str) -> Iterator[Open]:
    opened: list[PostgresTransport] = []

    def open_one() -> PostgresTransport:
        opened.append(from_url(f"{postgres_url}?timeout=60", clock=SystemClock()))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def together(*bodies: Callable[[], object]) -> None:
    """Run them at the same time; the first error of any of them is raised."""
    errors: list[BaseException] = []

    def guarded(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)


class Crew:
    """Workers that run everything, and count who runs at the same time."""

    def __init__(self, queues: dict[str, int]) -> None:
        self.queues = queues
        self.lock = threading.Lock()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()

    def worker(self, store: PostgresTransport, number: int) -> None:
        chance = random.Random(number)
        wanted = Reservation(queues=self.queues, worker=f"w{number}", lease=60.0, limit=8)
        listener = store.listen(list(self.queues))
        done: list[Settlement] = []
        while True:
            listener.clear()
            held = list(store.exchange(done, wanted).deliveries)
            self._begin(held)
            done = [self._settle(delivery, chance.random()) for delivery in held]
            self._end(held)
            if not held and not store.find(JobFilter(states=OPEN, limit=1)):
                return
            if not held:
                listener.wait(0.2)

    def _begin(self, held: list[Delivery]) -> None:
        with self.lock:
            for delivery in held:
                self.delivered[delivery.job_id] += 1
                gate = delivery.queue
                self.running[gate] += 1
                self.most[gate] = max(self.most[gate], self.running[gate])

    def _end(self, held: list[Delivery]) -> None:
        with self.lock:
            for delivery in held:
                self.running[delivery.queue] -= 1

    def _settle(self, delivery: Delivery, chance: float) -> Settlement:
        if chance < 0.1:
            return Release(delivery)
        if chance < 0.2:
            return RetryLater(delivery, 0.0, FAILURE)
        if chance < 0.25:
            return DeadLetter(delivery, "error", FAILURE)
        return Ack(delivery, Payload("json", b"1"))


OPEN = (JobState.QUEUED, JobState.RETRYING, JobState.RUNNING, JobState.WAITING)


def test_workers_and_producers_of_every_kind_of_job(open_store: Open) -> None:
    """Plain jobs, chains, keys, limits and turns at once: each ends, no limit is exceeded."""
    crew = Crew({"plain": 1, "chain": 2, "limited": 1, "fair": 1})
    limits = (Limit("concurrency", "few", 3),)

    def produce(number: int) -> None:
        store = open_store()
        for round_ in range(8):
            first = job(queue="chain")
            second = job(queue="chain", after=(Dependency(first.envelope.id),))
            third = job(
                queue="chain", after=(Dependency(first.envelope.id), Dependency(second.envelope.id))
            )
            store.enqueue([first, second, third])
            store.enqueue([job(queue="plain") for _ in range(10)])
            store.enqueue([job(queue="limited", limits=limits) for _ in range(3)])
            store.enqueue([job(queue="fair", fair=Fair(f"f{number}"))])
            store.enqueue([job(queue="plain", key=f"k{round_}")])

    stores = [open_store() for _ in range(4)]
    together(*(partial(produce, n) for n in range(3)))
    together(
        *(partial(crew.worker, stores[n], n) for n in range(4)),
        partial(produce, 3),
    )
    together(*(partial(crew.worker, stores[n], n) for n in range(4)))
    store = stores[0]
    assert store.find(JobFilter(states=OPEN)) == []
    assert crew.most["limited"] <= 3
    assert sum(each.held + each.running for each in store.stats()) == 0


def test_a_key_stands_for_one_job(open_store: Open) -> None:
    answers: list[tuple[str, bool]] = []

    def produce() -> None:
        store = open_store()
        for number in range(20):
            (one,) = store.enqueue([job(key=f"k{number}")])
            answers.append((one.job_id, one.created))

    together(*[produce] * 4)
    assert len({job_id for job_id, _ in answers}) == 20
    assert sum(created for _, created in answers) == 20


def test_a_queue_never_holds_more_than_it_may(open_store: Open) -> None:
    stored: list[str] = []
    refused: list[int] = []

    def produce() -> None:
        store = open_store()
        for _ in range(20):
            try:
                stored.extend(one.job_id for one in store.enqueue([job(Capacity(30))]))
            except QueueFull as full:
                refused.append(full.depth)

    together(*[produce] * 4)
    assert len(stored) == 30
    assert refused == [30] * 50
    assert open_store().stats(["q"])[0].ready == 30


def test_a_caller_drops_no_job_that_is_just_being_taken(
    open_store: Open, postgres_url: str
) -> None:
    """In a transaction of the caller's nobody is kept out, nor waited for."""
    store = open_store()
    oldest, second = job(), job()
    store.enqueue([oldest, second])
    with psycopg.connect(postgres_url) as worker, psycopg.connect(postgres_url) as caller:
        worker.execute(
            "SELECT 1 FROM taskmq.jobs WHERE id = %s FOR UPDATE SKIP LOCKED", [oldest.envelope.id]
        )
        caller.execute("SET LOCAL lock_timeout = '20s'")
        store.enqueue_within([job(Capacity(2, "drop_oldest"))], caller)
        caller.commit()
    records = store.get([oldest.envelope.id, second.envelope.id])
    assert [record and record.state for record in records] == [JobState.QUEUED, JobState.FAILED]


def test_dependents_of_a_job_that_ends_meanwhile_are_set_free(open_store: Open) -> None:
    """However the end of a job and the enqueue of its dependents meet."""
    store, other = open_store(), open_store()
    wanted = Reservation(queues={"first": 1}, worker="w", lease=60.0, limit=1)
    for _ in range(40):
        first = job(queue="first")
        store.enqueue([first])
        (held,) = store.reserve(wanted)
        children = [job(after=(Dependency(first.envelope.id),)) for _ in range(3)]
        together(partial(other.enqueue, children), partial(store.settle, [Ack(held)]))
    assert store.stats(["q"])[0].ready == 120


def test_settling_and_revoking_at_once(open_store: Open) -> None:
    """Chains that are revoked while they run: each job ends once."""
    store, other = open_store(), open_store()
    wanted = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=16)
    ids: list[str] = []
    for _ in range(16):
        first = job()
        chain = [first, *(job(after=(Dependency(first.envelope.id),)) for _ in range(4))]
        ids += [one.job_id for one in store.enqueue(chain)]
    held = store.reserve(wanted)
    together(
        partial(store.settle, [Ack(one) for one in held]),
        partial(other.revoke, ids[::-1]),
        other.maintain,
    )
    for _ in range(10):
        store.settle([Ack(one) for one in store.reserve(wanted)])
    records = [record for record in store.get(ids) if record is not None]
    assert len(records) == 80
    assert all(record.finished_at for record in records)
