"""The lease keeper: renews what is held, tells tasks, survives the store."""

from collections.abc import Sequence

import pytest

from taskmq import App, Config
from taskmq.context import TaskContext
from taskmq.envelope import load
from taskmq.errors import TransportUnavailable
from taskmq.testing import FakeClock
from taskmq.transport import Ack, Delivery, Reservation
from taskmq.worker.lease import RENEW_EVERY, LeaseKeeper
from taskmq.worker.recall import Recall

LEASE = 30.0


class Bench:
    """A keeper over a memory store with ``jobs`` reserved jobs, which it holds."""

    def __init__(self, jobs: int = 1) -> None:
        self.clock = FakeClock()
        self.app = App(Config(transport="memory://"), clock=self.clock)
        self.transport = self.app.transport
        task = self.app.task(name="noop")(lambda: None)
        self.jobs = task.submit_many([()] * jobs)
        self.running: dict[str, TaskContext] = {}
        self.recalled: list[Delivery] = []
        self.why: list[Recall] = []
        self.keeper = LeaseKeeper(
            self.transport,
            lease=LEASE,
            clock=self.clock,
            running=self.running,
            recall=self._recall,
        )
        self.deliveries = self.reserve(jobs)
        self.keeper.hold(self.deliveries)

    def _recall(self, recalled: Sequence[tuple[Delivery, Recall]]) -> None:
        self.recalled += [delivery for delivery, _ in recalled]
        self.why += [why for _, why in recalled]

    def reserve(self, limit: int) -> Sequence[Delivery]:
        wanted = Reservation(queues={"default": 1}, worker="w", lease=LEASE, limit=limit)
        return self.transport.reserve(wanted)

    def start(self, delivery: Delivery) -> TaskContext:
        context = TaskContext(self.app, delivery, load(delivery.envelope), clock=self.clock)
        self.running[delivery.job_id] = context
        return context

    def lease_until(self) -> float:
        record = self.jobs[0].record
        assert record is not None
        assert record.lease_until is not None
        return record.lease_until


def test_leases_are_renewed_for_as_long_as_they_are_held() -> None:
    bench = Bench()
    for _ in range(10):
        bench.clock.advance(LEASE / 3)
        bench.keeper.renew()
        assert bench.lease_until() == bench.clock.now() + LEASE
    assert bench.reserve(1) == []


def test_a_young_lease_costs_no_renewal() -> None:
    bench = Bench()
    before = bench.lease_until()
    bench.clock.advance(LEASE / 4)
    bench.keeper.renew()
    assert bench.lease_until() == before


def test_what_was_let_go_is_not_renewed() -> None:
    bench = Bench()
    before = bench.lease_until()
    bench.keeper.let_go([Ack(bench.deliveries[0])])
    bench.clock.advance(LEASE / 2)
    bench.keeper.renew()
    assert bench.lease_until() == before
    assert len(bench.keeper) == 0


def lose(bench: Bench) -> None:
    """Let the lease run out and somebody else reserve the job."""
    bench.clock.advance(LEASE)
    assert len(bench.reserve(1)) == 1


def test_a_lost_lease_cancels_the_task(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    context = bench.start(bench.deliveries[0])
    lose(bench)
    bench.keeper.renew()
    assert context.cancelled
    assert context.lease_lost
    assert bench.recalled == list(bench.deliveries)
    assert f"lost the lease of job {bench.jobs[0].id} (task noop is running" in caplog.text
    caplog.clear()
    bench.clock.advance(LEASE / 2)
    bench.keeper.renew()
    assert caplog.text == ""


def test_a_lost_lease_recalls_what_has_not_started(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    lose(bench)
    bench.keeper.renew()
    assert bench.recalled == list(bench.deliveries)
    assert "it had not started" in caplog.text


def test_the_context_of_another_delivery_of_the_job_is_left_alone() -> None:
    bench = Bench()
    bench.clock.advance(LEASE)
    (again,) = bench.reserve(1)
    bench.keeper.hold([again])
    context = bench.start(again)
    bench.keeper.renew()
    assert not context.cancelled
    assert bench.recalled == list(bench.deliveries)


def test_a_revoked_job_cancels_the_task() -> None:
    bench = Bench()
    context = bench.start(bench.deliveries[0])
    bench.jobs[0].revoke()
    bench.clock.advance(LEASE / 3)
    bench.keeper.renew()
    assert context.cancelled
    assert not context.lease_lost
    assert len(bench.keeper) == 1  # held until it is settled


def test_a_check_finds_a_revoked_job_without_a_renewal() -> None:
    bench = Bench(jobs=2)
    context, other = map(bench.start, bench.deliveries)
    before = bench.lease_until()
    bench.jobs[0].revoke()
    bench.keeper.check()
    assert not context.cancelled  # it may be done in a moment
    bench.keeper.check()
    assert (context.cancelled, context.lease_lost, other.cancelled) == (True, False, False)
    assert bench.recalled == [bench.deliveries[0]]
    bench.keeper.check()
    assert len(bench.recalled) == 1  # told once
    assert bench.lease_until() == before


def test_a_check_finds_a_lost_lease() -> None:
    bench = Bench()
    context = bench.start(bench.deliveries[0])
    lose(bench)
    bench.keeper.check()
    bench.keeper.check()
    assert context.lease_lost
    assert len(bench.keeper) == 0


def test_a_check_asks_nothing_about_short_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(bench.transport, "check", None)  # calling it would raise
    bench.keeper.check()
    bench.keeper.let_go([Ack(bench.deliveries[0])])
    bench.keeper.hold(bench.reserve(1))
    bench.keeper.check()
    assert bench.recalled == []


def test_a_check_waits_for_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    def fail(deliveries: object) -> object:
        raise TransportUnavailable("gone")

    bench.keeper.check()
    with monkeypatch.context() as patch:
        patch.setattr(bench.transport, "check", fail)
        bench.keeper.check()
    assert len(bench.keeper) == 1


def test_no_lease_gets_older_than_a_third() -> None:
    bench = Bench()
    for _ in range(100):
        bench.clock.advance(LEASE * RENEW_EVERY)
        assert bench.lease_until() - bench.clock.now() >= LEASE * 2 / 3 - 0.001
        bench.keeper.renew()


def test_a_settlement_that_overtakes_the_renewal_is_no_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    extend = bench.transport.extend

    def settle_first(deliveries: Sequence[Delivery], lease: float) -> object:
        acks = [Ack(delivery) for delivery in deliveries]
        bench.keeper.let_go(acks)
        bench.transport.settle(acks)
        return extend(deliveries, lease)

    bench.transport.extend = settle_first  # type: ignore[method-assign,assignment]
    bench.clock.advance(LEASE / 3)
    bench.keeper.renew()
    assert (bench.recalled, caplog.text) == ([], "")


def test_a_store_that_does_not_answer_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    extend = bench.transport.extend

    def refuse(deliveries: Sequence[Delivery], lease: float) -> object:
        raise TransportUnavailable("gone")

    bench.transport.extend = refuse  # type: ignore[method-assign,assignment]
    bench.clock.advance(LEASE / 3)
    bench.keeper.renew()
    bench.keeper.renew()
    assert bench.keeper.extend(bench.deliveries[0])  # not known to be lost
    assert caplog.text.count("cannot renew 1 leases") == 1
    bench.transport.extend = extend  # type: ignore[method-assign]
    bench.keeper.renew()
    assert bench.lease_until() == bench.clock.now() + LEASE


def test_a_task_can_renew_its_own_lease() -> None:
    bench = Bench()
    bench.clock.advance(1.0)
    assert bench.keeper.extend(bench.deliveries[0])
    assert bench.lease_until() == bench.clock.now() + LEASE
    lose(bench)
    context = bench.start(bench.deliveries[0])
    assert not bench.keeper.extend(bench.deliveries[0])
    assert context.cancelled


def test_what_is_paused_here_is_recalled_once_unless_it_runs() -> None:
    bench = Bench(3)
    bench.start(bench.deliveries[0])
    bench.keeper.recall_unstarted(lambda delivery: delivery.queue == "other")
    assert bench.recalled == []
    for _ in range(2):
        bench.keeper.recall_unstarted(lambda delivery: delivery.queue == "default")
    assert bench.recalled == list(bench.deliveries[1:])
    assert bench.why == [Recall.PAUSED] * 2
    assert bench.keeper.recalled(bench.deliveries[1]) is Recall.PAUSED
    assert bench.keeper.recalled(bench.deliveries[0]) is None


def test_who_is_told_to_stop_makes_no_room_for_another_that_is_recalled_too() -> None:
    bench = Bench(2)
    context = bench.start(bench.deliveries[0])
    bench.app.transport.revoke([delivery.job_id for delivery in bench.deliveries])
    seen: list[bool] = []

    def look(recalled: Sequence[tuple[Delivery, Recall]]) -> None:
        seen.append(context.cancelled)
        bench.why += [why for _, why in recalled]

    bench.keeper._recall = look
    bench.keeper.check()
    bench.keeper.check()
    assert seen == [False]
    assert context.cancelled
    assert bench.why == [Recall.REVOKED] * 2
