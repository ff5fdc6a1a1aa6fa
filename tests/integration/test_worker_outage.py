"""A store that does not answer, answers late, or answers nonsense: the worker stays."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config, JobState
from taskmq.clock import SystemClock
from taskmq.errors import StoreCorrupt, StoreFull, TransportError, TransportUnavailable
from taskmq.events import CollectingSink, TransportFailed
from taskmq.testing.faults import FailAfter, FailBefore, FaultPlan, FaultyTransport
from taskmq.transport import Exchange, Reservation, Settled, Settlement
from taskmq.transports.memory import MemoryTransport
from taskmq.worker import Worker

Start = Callable[..., Any]


class BreakableTransport(MemoryTransport):
    """Every exchange raises ``error`` while there is one. ``failed`` counts them."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.error: Exception | None = None
        self.failed = threading.Semaphore(0)

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        if self.error is not None:
            self.failed.release()
            raise self.error
        return super().exchange(settlements, reservation)

    def wait_for_failures(self, count: int) -> None:
        for _ in range(count):
            assert self.failed.acquire(timeout=PATIENCE)


def app_on(transport: MemoryTransport | FaultyTransport, **config: object) -> App:
    app = App(Config(transport="memory://", **config), transport=transport)  # type: ignore[arg-type]
    app.task(name="echo")(lambda number: number)
    return app


@pytest.mark.parametrize("error", [TransportUnavailable("gone"), StoreFull("full")])
def test_outcomes_survive_an_outage(error: TransportError, run_worker: Start) -> None:
    transport = BreakableTransport()
    app = app_on(transport)
    begun, go = threading.Event(), threading.Event()

    @app.task
    def slow() -> str:
        begun.set()
        assert go.wait(PATIENCE)
        return "kept"

    job = slow.delay()
    run_worker(app)
    assert begun.wait(PATIENCE)
    transport.error = error
    go.set()
    transport.wait_for_failures(2)
    transport.error = None
    assert job.get(PATIENCE) == "kept"
    assert job.info["deliveries"] == 1


def test_an_outage_is_logged_once_and_reported_at_every_attempt(
    run_worker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskmq.worker")
    transport, sink = BreakableTransport(), CollectingSink()
    app = app_on(transport)
    app.add_sink(sink)
    run_worker(app)
    transport.error = TransportUnavailable("connection refused")
    job = app.tasks["echo"].call(1).submit()
    transport.wait_for_failures(3)
    transport.error = None
    assert job.get(PATIENCE) == 1
    failures = [event for event in sink.events if isinstance(event, TransportFailed)]
    assert len(failures) >= 3
    assert 0.025 <= failures[0].retry_in <= 0.05
    assert caplog.text.count("the store does not answer") == 1
    assert caplog.text.count("connection refused") == 1
    assert caplog.text.count("the store answers again") == 1


def test_an_answer_that_was_lost_settles_nothing_twice() -> None:
    plan = FaultPlan(FailAfter("exchange", nth=2))
    app = app_on(FaultyTransport(MemoryTransport(SystemClock()), plan))
    job = app.tasks["echo"].call(1).submit()
    report = Worker(app).run_until_idle(PATIENCE)
    assert report.succeeded == 1
    assert (job.state, job.info["deliveries"]) == (JobState.SUCCEEDED, 1)
    assert plan.struck


def test_every_second_exchange_may_fail() -> None:
    faults = [FailBefore("exchange", nth=nth) for nth in range(1, 20, 2)]
    app = app_on(FaultyTransport(MemoryTransport(SystemClock()), FaultPlan(*faults)))
    echo = app.tasks["echo"]
    jobs = echo.submit_many([(number,) for number in range(100)])
    assert Worker(app).run_until_idle(PATIENCE).succeeded == 100
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}


def test_a_damaged_store_ends_the_worker(run_worker: Start) -> None:
    transport = BreakableTransport()
    running = run_worker(app_on(transport))
    transport.error = StoreCorrupt("page 7 is damaged")
    app_on(transport).tasks["echo"].call(1).submit()
    with pytest.raises(StoreCorrupt, match="page 7"):
        running.result()


def test_a_store_that_is_down_at_the_start_is_an_error() -> None:
    plan = FaultPlan(FailBefore("register"))
    app = app_on(FaultyTransport(MemoryTransport(SystemClock()), plan))
    before = set(threading.enumerate())
    with pytest.raises(TransportUnavailable):
        Worker(app).run()
    assert set(threading.enumerate()) <= before


class PoisonedTransport(MemoryTransport):
    """Breaks down, with a plain exception, over the settlement of one job."""

    poison = ""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        if any(settlement.delivery.job_id == self.poison for settlement in settlements):
            raise RuntimeError("a bug in the store")
        return super().exchange(settlements, reservation)

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.exchange(settlements).settled


def test_one_settlement_that_breaks_the_store_costs_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = PoisonedTransport(SystemClock())
    app = app_on(transport)
    jobs = app.tasks["echo"].submit_many([(number,) for number in range(20)])
    transport.poison = jobs[7].id
    assert Worker(app).run_until_idle(PATIENCE).succeeded == 19
    assert [job.state for job in jobs].count(JobState.SUCCEEDED) == 19
    assert jobs[7].state == JobState.RUNNING  # until its lease ends
    assert f"job {jobs[7].id} cannot be settled" in caplog.text


def test_stopping_during_an_outage_ends_in_time(
    run_worker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    transport = BreakableTransport()
    app = app_on(transport, shutdown_timeout=0.2)
    running = run_worker(app)
    begun, go = threading.Event(), threading.Event()

    @app.task
    def slow() -> None:
        begun.set()
        assert go.wait(PATIENCE)

    slow.delay()
    assert begun.wait(PATIENCE)
    transport.error = TransportUnavailable("gone")
    go.set()
    transport.wait_for_failures(1)
    running.worker.stop()
    assert running.result().succeeded == 0
    assert "1 outcomes could not be stored" in caplog.text
