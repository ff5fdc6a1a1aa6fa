"""Injected faults do exactly what the plan says, and workers and producers survive them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.errors import TransportUnavailable
from taskmq.states import JobState
from taskmq.testing import (
    Delay,
    FailAfter,
    FailBefore,
    FakeClock,
    FaultPlan,
    FaultyTransport,
    LoseLeases,
    LoseWakeup,
    RandomFaults,
    TransportWrapper,
)
from taskmq.testing.conformance import run
from taskmq.transport import Ack, Delivery, LeaseStatus, Reservation, Settled, Transport
from taskmq.transports.memory import MemoryTransport
from taskmq.worker import Worker

R = TypeVar("R")

WANTED = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=10)


def job(name: str = "j1") -> Sealed:
    return seal(Envelope(v=1, id=name, task="t", queue="q", args=msgspec.Raw(b"[]")), 1 << 20)


@pytest.fixture
def store() -> MemoryTransport:
    return MemoryTransport(FakeClock())


def take(transport: Transport) -> Delivery:
    (delivery,) = transport.reserve(WANTED)
    return delivery


# -- failing before and after -----------------------------------------------------------------


def test_a_call_that_fails_before_changes_nothing(store: MemoryTransport) -> None:
    faulty = FaultyTransport(store, FaultPlan(FailBefore("enqueue")))
    with pytest.raises(TransportUnavailable, match="enqueue did not reach"):
        faulty.enqueue([job()])
    assert store.get(["j1"]) == [None]


def test_a_call_that_fails_after_has_happened(store: MemoryTransport) -> None:
    faulty = FaultyTransport(store, FaultPlan(FailAfter("enqueue")))
    with pytest.raises(TransportUnavailable, match="answer to enqueue was lost"):
        faulty.enqueue([job()])
    assert store.stats(["q"])[0].ready == 1


def test_only_the_planned_calls_fail(store: MemoryTransport) -> None:
    plan = FaultPlan(FailBefore("stats", nth=2, times=2))
    faulty = FaultyTransport(store, plan)
    outcomes = []
    for _ in range(5):
        try:
            faulty.stats()
            outcomes.append("ok")
        except TransportUnavailable:
            outcomes.append("failed")
    assert outcomes == ["ok", "failed", "failed", "ok", "ok"]
    assert plan.struck == [FailBefore("stats", nth=2, times=2)] * 2
    assert plan.calls("stats") == 5


def test_a_settlement_whose_answer_was_lost_may_be_repeated(store: MemoryTransport) -> None:
    faulty = FaultyTransport(store, FaultPlan(FailAfter("settle")))
    faulty.enqueue([job()])
    delivery = take(faulty)
    with pytest.raises(TransportUnavailable):
        faulty.settle([Ack(delivery)])
    assert faulty.settle([Ack(delivery)]) == [Settled.REPEATED]


def test_a_delay_takes_the_clocks_time(store: MemoryTransport) -> None:
    slept: list[float] = []
    plan = FaultPlan(Delay("get", seconds=3.0))
    faulty = FaultyTransport(store, plan, sleep=slept.append)
    assert faulty.get(["j1"]) == [None]
    assert slept == [3.0]


# -- leases and wake-ups ------------------------------------------------------------------------


def test_lost_leases_stay_lost_and_settle_nothing(store: MemoryTransport) -> None:
    faulty = FaultyTransport(store, FaultPlan(LoseLeases()))
    faulty.enqueue([job("j1"), job("j2")])
    first, second = faulty.reserve(WANTED)
    assert faulty.extend([first], 60.0) == [LeaseStatus.LOST]
    assert faulty.extend([second, first], 60.0) == [LeaseStatus.HELD, LeaseStatus.LOST]
    assert faulty.settle([Ack(first), Ack(second)]) == [Settled.LEASE_LOST, Settled.DONE]
    answer = faulty.exchange([Ack(first), Ack(second)], WANTED)
    assert answer.settled == [Settled.LEASE_LOST, Settled.REPEATED]
    first_record, second_record = store.get(["j1", "j2"])
    assert first_record is not None
    assert second_record is not None
    assert (first_record.state, second_record.state) == (JobState.RUNNING, JobState.SUCCEEDED)


def test_a_lost_wakeup_is_not_noticed_and_the_next_one_is(store: MemoryTransport) -> None:
    faulty = FaultyTransport(store, FaultPlan(LoseWakeup()))
    listener = faulty.listen(["q"])
    listener.clear()
    store.enqueue([job("j1")])
    assert listener.wait(0.0) is False
    store.enqueue([job("j2")])
    assert listener.wait(0.0) is True
    listener.close()


def test_the_owners_own_wake_is_never_lost(store: MemoryTransport) -> None:
    faulty = FaultyTransport(store, FaultPlan(LoseWakeup(times=1000)))
    listener = faulty.listen(["q"])
    ended = threading.Event()

    def wait() -> None:
        listener.wait(None)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    store.enqueue([job("j1")])
    listener.wake()
    assert ended.wait(PATIENCE)
    listener.close()


# -- random faults ------------------------------------------------------------------------------


def struck(seed: int, store: Transport) -> list[str]:
    faults = RandomFaults(seed, rate=0.3, operations=["stats"])
    faulty = FaultyTransport(store, faults)
    for _ in range(50):
        with suppress(TransportUnavailable):
            faulty.stats()
    return [f"{type(fault).__name__} {fault.nth}" for fault in faults.struck]


def test_random_faults_repeat_by_their_seed(store: MemoryTransport) -> None:
    assert struck(1, store) == struck(1, store)
    assert struck(1, store) != struck(2, store)
    assert {name.split()[0] for name in struck(1, store)} == {"FailBefore", "FailAfter"}


def test_random_faults_leave_other_operations_alone(store: MemoryTransport) -> None:
    faulty = FaultyTransport(store, RandomFaults(1, rate=1.0, operations=["enqueue"]))
    assert faulty.stats() == []
    with pytest.raises(TransportUnavailable):
        faulty.enqueue([job()])


# -- the wrapper --------------------------------------------------------------------------------


def test_a_wrapper_without_faults_is_a_whole_transport() -> None:
    report = run(lambda _, clock: FaultyTransport(MemoryTransport(clock), FaultPlan()))
    assert [(str(each.case), each.detail) for each in report.failures] == []


def test_every_operation_goes_around() -> None:
    seen: list[str] = []

    class Noting(TransportWrapper):
        def around(self, operation: str, call: Callable[[], R]) -> R:
            seen.append(operation)
            return call()

    wrapper: Transport = Noting(MemoryTransport(FakeClock()))
    wrapper.unpark(["t"])
    wrapper.maintain()
    wrapper.acquire("beat", "me", 1.0)
    assert seen == ["unpark", "maintain", "acquire"]


# -- the real worker ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FailBefore, FailAfter])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_worker_loses_nothing_when_an_exchange_fails(
    kind: type[FailBefore | FailAfter], nth: int
) -> None:
    clock = FakeClock()
    plan = FaultPlan(kind("exchange", nth=nth))
    app = App(Config(), transport=FaultyTransport(MemoryTransport(clock), plan), clock=clock)

    @app.task(name="double")
    def double(n: int) -> int:
        return 2 * n

    results = [double.delay(n) for n in range(10)]
    Worker(app).run_until_idle(timeout=PATIENCE)
    clock.advance(61.0)  # deliveries whose answer was lost come back when their lease ends
    Worker(app).run_until_idle(timeout=PATIENCE)
    assert [result.get(timeout=0) for result in results] == [2 * n for n in range(10)]
