"""What the simulation found, each as the shortest story that shows it, on every store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.limits import Limit
from taskmq.plugins import open_transport
from taskmq.records import Failure
from taskmq.states import JobState
from taskmq.testing import FakeClock
from taskmq.transport import (
    Ack,
    DeadLetter,
    Delivery,
    Release,
    Reservation,
    RetryLater,
    Transport,
)

ONE = Limit("concurrency", "one")
SLOW = Limit("rate", "slow", 1, per=8.0)
FAILED = Failure(type="builtins.ValueError")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Transport]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    transport = open_transport(url, clock=clock)
    yield transport
    transport.close()


def job(name: str, queue: str = "q", *, after: str = "", **fields: Any) -> Sealed:
    needed = tuple(map(Dependency, after.split()))
    args = msgspec.Raw(b"[]")
    envelope = Envelope(v=1, id=name, task="t", queue=queue, args=args, after=needed, **fields)
    return seal(envelope, 1 << 20)


def wanted(*queues: str, limit: int = 10) -> Reservation:
    return Reservation(queues=dict.fromkeys(queues, 1), worker="w", lease=60.0, limit=limit)


def ids(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.job_id for delivery in deliveries]


def states(store: Transport, *names: str) -> list[JobState]:
    return [JobState.UNKNOWN if r is None else r.state for r in store.get(names)]


@pytest.mark.parametrize("queues", [("a", "b"), ("b", "a")])
def test_jobs_overdue_at_once_expire_in_whatever_order_their_queues_are_looked_at(
    store: Transport, clock: FakeClock, queues: tuple[str, str]
) -> None:
    until = clock.now() + 5
    store.enqueue([job("j1", "a", expires_at=until)])
    store.enqueue([job("j2", "b", after="j1", expires_at=until)])
    clock.advance(10)
    dropped = store.exchange((), wanted(*queues)).dropped
    assert sorted((each.job_id, each.reason) for each in dropped) == [
        ("j1", "expired"),
        ("j2", "expired"),
    ]
    assert states(store, "j1", "j2") == [JobState.EXPIRED, JobState.EXPIRED]


def test_maintenance_expires_a_job_and_an_overdue_one_that_waits_for_it(
    store: Transport, clock: FakeClock
) -> None:
    until = clock.now() + 5
    store.enqueue([job("j1", "a", expires_at=until), job("j2", "b", expires_at=until, after="j1")])
    clock.advance(10)
    assert store.maintain().expired == 2
    assert states(store, "j1", "j2") == [JobState.EXPIRED, JobState.EXPIRED]


@pytest.mark.parametrize("after", ["dead done", "done dead"])
def test_what_is_skipped_at_once_knows_what_had_succeeded_when_it_waits_again(
    store: Transport, after: str
) -> None:
    store.enqueue([job("dead"), job("done")])
    dead, done = store.reserve(wanted("q"))
    store.settle([DeadLetter(dead, "error", FAILED), Ack(done)])
    store.enqueue([job("j1", after=after)])
    assert states(store, "j1") == [JobState.SKIPPED]
    store.replay(["dead"], {})
    assert states(store, "j1") == [JobState.WAITING]
    store.settle([Ack(delivery) for delivery in store.reserve(wanted("q"))])
    assert ids(store.reserve(wanted("q"))) == ["j1"]


# -- limits --------------------------------------------------------------------------------------


def test_a_job_that_got_another_envelope_does_not_count_for_its_old_limits(
    store: Transport,
) -> None:
    store.enqueue([job("j1", limits=(ONE,))])
    (first,) = store.reserve(wanted("q"))
    store.settle([RetryLater(first, 0.0, FAILED, envelope=job("j1"))])
    assert ids(store.reserve(wanted("q"))) == ["j1"]
    store.enqueue([job("j2", limits=(ONE,))])
    assert ids(store.reserve(wanted("q"))) == ["j2"]


def test_a_job_refused_by_its_second_limit_does_not_let_a_less_urgent_one_pass_its_follower(
    store: Transport,
) -> None:
    store.enqueue([job("j0", limits=(SLOW,))])
    store.settle([Ack(delivery) for delivery in store.reserve(wanted("q"))])
    store.enqueue([job("j1", limits=(ONE, SLOW)), job("j2", limits=(ONE,))])
    store.enqueue([job("j3", priority=-3)])
    assert ids(store.reserve(wanted("q", limit=1))) == ["j2"]


def test_a_job_that_comes_back_to_a_rate_is_before_later_ones(
    store: Transport, clock: FakeClock
) -> None:
    store.enqueue([job("j1", limits=(SLOW,)), job("j2", limits=(SLOW,))])
    (first,) = store.reserve(wanted("q"))
    store.settle([RetryLater(first, 1.0, FAILED)])
    clock.advance(1.0)
    assert ids(store.reserve(wanted("q"))) == []
    clock.advance(7.0)
    assert ids(store.reserve(wanted("q"))) == ["j1"]


def test_a_job_that_waits_for_a_rate_follows_one_that_gave_its_start_back(
    store: Transport,
) -> None:
    store.enqueue([job("j1", "a", limits=(SLOW,)), job("j2", "b", limits=(SLOW,))])
    (first,) = store.reserve(wanted("a"))
    assert ids(store.reserve(wanted("b"))) == []
    store.settle([Release(first)])
    store.revoke(["j1"])
    assert ids(store.reserve(wanted("b"))) == ["j2"]
