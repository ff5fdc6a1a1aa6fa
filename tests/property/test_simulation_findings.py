"""What the simulation found, each as the shortest story that shows it, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskmq.envelope import Dependency, Envelope, Sealed, seal
from taskmq.plugins import open_transport
from taskmq.states import JobState
from taskmq.testing import FakeClock
from taskmq.transport import Reservation, Transport


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Transport]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    transport = open_transport(url, clock=clock)
    yield transport
    transport.close()


def job(name: str, queue: str = "q", *, after: str | None = None, **fields: Any) -> Sealed:
    needed = () if after is None else (Dependency(after),)
    args = msgspec.Raw(b"[]")
    envelope = Envelope(v=1, id=name, task="t", queue=queue, args=args, after=needed, **fields)
    return seal(envelope, 1 << 20)


def wanted(*queues: str, limit: int = 10) -> Reservation:
    return Reservation(queues=dict.fromkeys(queues, 1), worker="w", lease=60.0, limit=limit)


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
