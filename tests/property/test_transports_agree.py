"""Whatever is done to them, each of the real stores and the reference answer alike."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests import services

from taskmq.envelope import Sealed
from taskmq.errors import TransportError
from taskmq.ids import new_id
from taskmq.limits import Capacity, Fair, Limit
from taskmq.plugins import open_transport
from taskmq.records import (
    Dropped,
    JobFilter,
    JobRecord,
    MaintenanceReport,
    QueueStats,
    WorkerRecord,
)
from taskmq.testing.conformance import Subject
from taskmq.testing.conformance.subject import FAILURE, text
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    Exchange,
    Expire,
    Nack,
    Release,
    Reservation,
    RetryLater,
    Revoke,
    Settlement,
    Transport,
)
from taskmq.transports.memory import MemoryTransport

R = TypeVar("R")
Pair = tuple[Delivery, Delivery]
"""One delivery, as each of the two stores made it: the tokens may differ."""

QUEUES = ("a", "b", "c")
DELAYS = st.sampled_from([0.0, 1.0, 3.0, 8.0])
TWO = Limit("concurrency", "two", 2)
ONE = Limit("concurrency", "one", 1)
SLOW = Limit("rate", "slow", 1, 3.0)
BURSTS = Limit("rate", "bursts", 2, 4.0, 3)
LIMITS = [(), (), (), (ONE,), (TWO,), (SLOW,), (BURSTS,), (TWO, SLOW), (ONE, SLOW, BURSTS)]
INDEXES = st.lists(st.integers(0, 30), max_size=4)
JOBS = st.fixed_dictionaries(
    {
        "task": st.sampled_from(["demo.x", "demo.y"]),
        "queue": st.sampled_from(QUEUES),
        "priority": st.integers(-1, 1),
        "ack": st.sampled_from(["on_success", "on_success", "on_receipt"]),
        "max_deliveries": st.integers(1, 3),
        "store_result": st.booleans(),
        "result_ttl": st.sampled_from([0.0, 6.0, 1_000.0]),
        "key": st.sampled_from([None, None, None, "k1", "k2"]),
        "key_ttl": st.sampled_from([4.0, 50.0]),
        "args": st.sampled_from([[], [1]]),
        "eta": st.none() | DELAYS,
        "expires_at": st.none() | st.none() | st.sampled_from([2.0, 5.0, 20.0]),
        "after": INDEXES,
        "limits": st.sampled_from(LIMITS),
        "fair": st.sampled_from([None, None, None, Fair("x"), Fair("y", 2.0)]),
    }
)
SETTLEMENTS: list[Callable[[Delivery, float], Settlement]] = [
    lambda delivery, delay: Ack(delivery, text(delivery.job_id)),
    lambda delivery, delay: Ack(delivery),
    lambda delivery, delay: RetryLater(delivery, delay, FAILURE),
    lambda delivery, delay: Nack(delivery, delay, "crashed"),
    lambda delivery, delay: DeadLetter(delivery, "error", FAILURE),
    lambda delivery, delay: Defer(delivery, delay),
    lambda delivery, delay: Defer(delivery, delay, "unknown_task", 7.0),
    lambda delivery, delay: Release(delivery),
    lambda delivery, delay: Expire(delivery),
    lambda delivery, delay: Revoke(delivery),
]
SETTLING = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, len(SETTLEMENTS) - 1), DELAYS), max_size=5
)


def _plain(record: JobRecord | None) -> Any:
    """A record without what stores may word as they like."""
    if record is None:
        return None
    history = tuple(msgspec.structs.replace(entry, detail="") for entry in record.history)
    return msgspec.structs.replace(record, history=history)


def _in_order(report: MaintenanceReport) -> MaintenanceReport:
    dropped = tuple(sorted(report.dropped, key=lambda each: each.job_id))
    return msgspec.structs.replace(report, dropped=dropped)


def _outline(delivery: Delivery) -> Any:
    return msgspec.structs.replace(delivery, token=0)


class Agreement(RuleBasedStateMachine):
    """Does everything twice: to the reference, and to a new SQLite file."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.subject = Subject(lambda name, clock: MemoryTransport(clock), "model")
        self.clock = self.subject.clock
        self.model: Transport = self.subject.transport
        self.real = open_transport(self.url(), clock=self.clock)
        self.ids: list[str] = []
        self.held: list[Pair] = []

    def url(self) -> str:
        """A new, empty store."""
        return f"sqlite:///{self.folder.name}/store.db"

    def teardown(self) -> None:
        self.real.close()
        self.folder.cleanup()

    # -- what is done -------------------------------------------------------------------------

    @rule(batch=st.lists(JOBS, min_size=1, max_size=4))
    def enqueue(self, batch: list[dict[str, Any]]) -> None:
        sealed = [self._job(fields) for fields in batch]
        self._alike(lambda store: store.enqueue(sealed))

    @rule(count=st.integers(1, 5), queue=st.sampled_from(QUEUES))
    def enqueue_plain(self, count: int, queue: str) -> None:
        sealed = [self._job({"queue": queue, "max_deliveries": 2}) for _ in range(count)]
        self._alike(lambda store: store.enqueue(sealed))

    @rule(
        count=st.integers(1, 5),
        limits=st.sampled_from(LIMITS),
        fair=st.sampled_from([None, Fair("x"), Fair("y", 2.0), Fair("z", 0.3)]),
        queue=st.sampled_from(QUEUES),
        priority=st.integers(-1, 1),
    )
    def enqueue_limited(
        self, count: int, limits: tuple[Limit, ...], fair: Fair | None, queue: str, priority: int
    ) -> None:
        fields = {"queue": queue, "priority": priority, "limits": limits, "fair": fair}
        sealed = [self._job(fields) for _ in range(count)]
        self._alike(lambda store: store.enqueue(sealed))

    @rule(
        batch=st.lists(JOBS, min_size=1, max_size=3),
        limit=st.integers(1, 8),
        overflow=st.sampled_from(["reject", "drop_oldest"]),
    )
    def enqueue_where_room_is_limited(
        self, batch: list[dict[str, Any]], limit: int, overflow: Literal["reject", "drop_oldest"]
    ) -> None:
        capacity = Capacity(limit, overflow)
        made = [self._job(fields) for fields in batch]
        sealed = [Sealed(one.envelope, one.data, capacity) for one in made]
        self._alike(lambda store: store.enqueue(sealed))

    @rule(
        settling=SETTLING,
        queues=st.dictionaries(st.sampled_from(QUEUES), st.integers(1, 3), min_size=1),
        limit=st.integers(0, 6),
        lease=st.sampled_from([2.0, 30.0]),
        worker=st.sampled_from(["w", "v"]),
        quotas=st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 3), max_size=2),
        named=st.none() | st.none() | INDEXES,
    )
    def exchange(
        self,
        settling: list[tuple[int, int, float]],
        queues: dict[str, int],
        limit: int,
        lease: float,
        worker: str,
        quotas: dict[str, int],
        named: list[int] | None,
    ) -> None:
        wanted = Reservation(
            queues=queues,
            worker=worker,
            lease=lease,
            limit=limit,
            quotas=quotas,
            jobs=None if named is None else self._pick(self.ids, named),
        )
        ours, theirs = self._settlements(settling)
        expected, actual = self.model.exchange(ours, wanted), self.real.exchange(theirs, wanted)
        assert list(actual.settled) == list(expected.settled)
        assert self._dropped(actual) == self._dropped(expected)
        assert set(expected.readied) <= set(actual.readied)  # more than is new is allowed
        assert actual.next_due_at == expected.next_due_at
        assert actual.waiting_priority == expected.waiting_priority
        got, wished = list(actual.deliveries), list(expected.deliveries)
        assert [d.priority for d in got] == [d.priority for d in wished]
        by_queue = {delivery.job_id: delivery for delivery in got}
        for queue in queues:
            mine = [_outline(d) for d in wished if d.queue == queue]
            assert [_outline(d) for d in got if d.queue == queue] == mine
        self.held += [(delivery, by_queue[delivery.job_id]) for delivery in wished]

    @rule(settling=SETTLING)
    def settle(self, settling: list[tuple[int, int, float]]) -> None:
        ours, theirs = self._settlements(settling)
        assert list(self.real.settle(theirs)) == list(self.model.settle(ours))

    @rule(picks=INDEXES, lease=st.sampled_from([1.0, 20.0]))
    def extend(self, picks: list[int], lease: float) -> None:
        pairs = self._pick(self.held, picks)
        expected = self.model.extend([ours for ours, _ in pairs], lease)
        assert self.real.extend([theirs for _, theirs in pairs], lease) == expected

    @rule(seconds=st.sampled_from([1.0, 2.0, 5.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(picks=INDEXES, terminate=st.booleans(), by=st.sampled_from(["ann", "bob"]))
    def revoke(self, picks: list[int], terminate: bool, by: str) -> None:
        chosen = list(dict.fromkeys(self._pick(self.ids, picks)))
        self._alike(lambda store: store.revoke(chosen, terminate=terminate, by=by))

    @rule(picks=INDEXES, edited=st.booleans(), fields=JOBS)
    def replay(self, picks: list[int], edited: bool, fields: dict[str, Any]) -> None:
        chosen = list(dict.fromkeys(self._pick(self._dead(), picks) + self._pick(self.ids, picks)))
        plain = {**fields, "after": (), "key": None}
        new = {id: self._job({**plain, "id": id}) for id in chosen} if edited else {}
        self._alike(lambda store: store.replay(chosen, new))

    @rule(picks=INDEXES)
    def bury(self, picks: list[int]) -> None:
        chosen = list(dict.fromkeys(self._pick(self.ids, picks)))
        self._alike(lambda store: store.bury(chosen))

    @rule(picks=INDEXES)
    def forget(self, picks: list[int]) -> None:
        chosen = list(dict.fromkeys(self._pick(self.ids, picks)))
        self._alike(lambda store: store.forget(chosen))

    @rule(queue=st.sampled_from(QUEUES))
    def purge(self, queue: str) -> None:
        self._alike(lambda store: store.purge(queue))

    @rule(queue=st.sampled_from(QUEUES), goes_on=st.sampled_from([True, True, False]))
    def pause_or_resume(self, queue: str, goes_on: bool) -> None:
        if goes_on:
            self._alike(lambda store: store.resume(queue))
        else:
            self._alike(lambda store: store.pause(queue, by="ann"))
        self._alike(lambda store: store.paused())

    @rule(tasks=st.lists(st.sampled_from(["demo.x", "demo.y", "demo.task"]), max_size=2))
    def unpark(self, tasks: list[str]) -> None:
        self._alike(lambda store: store.unpark(tasks))

    @rule(name=st.sampled_from(["w", "v"]))
    def worker_dies(self, name: str) -> None:
        worker = WorkerRecord(
            id=name,
            queues=QUEUES,
            pool="threads",
            concurrency=1,
            started_at=self.clock.now(),
            heartbeat_at=self.clock.now(),
            heartbeat_interval=1.0,
        )
        self._alike(lambda store: store.register(worker))

        def reclaim(store: Transport) -> tuple[int, list[Dropped]]:
            taken = store.reclaim(worker)
            return taken.count, sorted(taken.dropped, key=lambda each: each.job_id)

        self._alike(reclaim)

    @rule()
    def maintain(self) -> None:
        self._alike(lambda store: _in_order(store.maintain()))

    # -- what must be the same ----------------------------------------------------------------

    @invariant()
    def same_jobs(self) -> None:
        everything = JobFilter(limit=10_000)
        expected = [_plain(record) for record in self.model.find(everything)]
        assert [_plain(record) for record in self.real.find(everything)] == expected

    @invariant()
    def same_depths(self) -> None:
        def depths(store: Transport) -> list[QueueStats]:
            return list(store.stats())

        assert depths(self.real) == depths(self.model)

    # -- how ----------------------------------------------------------------------------------

    def _alike(self, operation: Callable[[Transport], R]) -> None:
        """Both stores give the same answer, or raise the same kind of error."""

        def attempt(store: Transport) -> R | type[TransportError]:
            try:
                return operation(store)
            except TransportError as error:
                return type(error)

        expected = attempt(self.model)
        assert attempt(self.real) == expected

    def _job(self, fields: dict[str, Any]) -> Sealed:
        fields = dict(fields)
        now = self.clock.now()
        for name in ("eta", "expires_at"):
            if fields.get(name) is not None:
                fields[name] += now
        if "after" in fields:
            fields["after"] = list(dict.fromkeys(self._pick(self.ids, fields["after"])))
        if "id" not in fields:
            fields["id"] = f"J{len(self.ids):04}"
            self.ids.append(fields["id"])
        return self.subject.job(**fields)

    def _settlements(
        self, settling: list[tuple[int, int, float]]
    ) -> tuple[list[Settlement], list[Settlement]]:
        if not self.held:
            return [], []
        chosen = [(self.held[-1 - n % len(self.held)], SETTLEMENTS[k], d) for n, k, d in settling]
        ours = [kind(pair[0], delay) for pair, kind, delay in chosen]
        return ours, [kind(pair[1], delay) for pair, kind, delay in chosen]

    def _dead(self) -> list[str]:
        return [record.id for record in self.model.find(JobFilter(dead=True))]

    @staticmethod
    def _pick(things: Sequence[R], picks: Sequence[int]) -> list[R]:
        """Some of them, the newest first: small numbers mean recent things."""
        return [things[-1 - pick % len(things)] for pick in picks] if things else []

    @staticmethod
    def _dropped(answer: Exchange) -> list[tuple[str, str]]:
        return sorted((drop.job_id, drop.reason) for drop in answer.dropped)


TestTransportsAgree = Agreement.TestCase
TestTransportsAgree.settings = settings(max_examples=60, stateful_step_count=40)


class RedisAgreement(Agreement):
    """The same with a new namespace on a Redis server."""

    server: services.Redis

    def url(self) -> str:
        return f"{self.server.url}?namespace={new_id()}"


@pytest.fixture
def redis_agreement(redis_server: services.Redis) -> None:
    RedisAgreement.server = redis_server


TestRedisAgrees = pytest.mark.usefixtures("redis_agreement")(RedisAgreement.TestCase)
TestRedisAgrees.settings = settings(max_examples=20, stateful_step_count=40)
