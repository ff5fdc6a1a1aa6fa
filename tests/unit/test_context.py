"""What a running task can know and do about its delivery."""

import logging
from typing import Any

import pytest

from taskmq import App, Config, Retry, TaskmqError, current_app, current_task
from taskmq.context import TaskContext, active_context
from taskmq.envelope import Envelope, load
from taskmq.errors import JobCancelled, ReleaseJob, RetryJob
from taskmq.testing import FakeClock
from taskmq.transport import Delivery


def context(clock: FakeClock, *, extend: bool | None = None, **fields: Any) -> TaskContext:
    envelope = Envelope(
        **{"v": 1, "id": "J1", "task": "shop.pay", "queue": "stored", "timeout": 10.0, **fields}
    )
    delivery = Delivery(
        job_id="J1",
        queue="email",
        priority=0,
        envelope=b"",
        token=1,
        attempt=2,
        deliveries=3,
        reclaims=1,
        yields=0,
        lease_until=0.0,
    )
    renew = None if extend is None else (lambda _: bool(extend))
    return TaskContext(
        App(Config(), clock=clock), delivery, envelope, worker="w1", clock=clock, extend=renew
    )


def test_outside_of_a_task_there_is_none() -> None:
    for look in (current_task, current_app):
        with pytest.raises(TaskmqError, match="no task is running here"):
            look()
    assert current_task(None) is None


def test_inside_of_a_task_it_is_found() -> None:
    made = context(FakeClock())
    token = active_context.set(made)
    try:
        assert current_task() is made
        assert current_task(None) is made
        assert current_app() is made.app
    finally:
        active_context.reset(token)


def test_it_tells_of_job_and_delivery() -> None:
    made = context(FakeClock(), headers={"tenant": "a"}, trace={"traceparent": "00-1"})
    assert (made.id, made.task, made.queue, made.worker) == ("J1", "shop.pay", "email", "w1")
    assert (made.attempt, made.deliveries, made.reclaims) == (2, 3, 1)
    assert (made.headers, made.trace) == ({"tenant": "a"}, {"traceparent": "00-1"})


def test_the_deadline_counts_from_the_start() -> None:
    clock = FakeClock()
    made = context(clock)
    assert made.remaining() == 10
    clock.advance(12)
    assert made.remaining() == -2
    assert context(clock, timeout=None).remaining() is None
    assert context(clock, timeout=None).deadline is None


def test_retry_gives_the_exception_to_raise() -> None:
    signal = context(FakeClock()).retry("rate limited", delay=3)
    assert isinstance(signal, RetryJob)
    assert (signal.reason, signal.delay, str(signal)) == ("rate limited", 3, "rate limited")


@pytest.mark.parametrize("delay", ["5", True, object()])
def test_a_delay_that_is_no_number_is_refused_where_it_is_written(delay: object) -> None:
    with pytest.raises(TypeError, match="delay must be a number of seconds"):
        context(FakeClock()).retry(delay=delay)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(TypeError, match="delay must be a number of seconds"):
        ReleaseJob(delay=delay)  # type: ignore[arg-type]  # the mistake under test


def test_a_delay_must_be_finite() -> None:
    with pytest.raises(ValueError, match="delay must be finite"):
        RetryJob(delay=float("inf"))


def test_a_heartbeat_asks_the_worker() -> None:
    assert context(FakeClock(), extend=True).heartbeat()
    assert not context(FakeClock(), extend=False).heartbeat()
    assert context(FakeClock()).heartbeat()  # nobody holds a lease: nothing to lose


def test_a_cancelled_task_stops_at_its_next_check() -> None:
    made = context(FakeClock())
    made.check_cancelled()
    made.cancelled = True
    with pytest.raises(JobCancelled, match="job J1 was cancelled"):
        made.check_cancelled()


def test_a_task_that_lost_its_lease_is_told_so() -> None:
    made = context(FakeClock())
    made.cancelled = made.lease_lost = True
    with pytest.raises(JobCancelled, match="the lease of job J1 was lost: it runs elsewhere"):
        made.check_cancelled()


def test_log_records_carry_the_job(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        context(FakeClock()).log.info("sending", to="a@b.com", message="a field of that name")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("taskmq.task.shop.pay", "sending")
    assert record.funcName == "test_log_records_carry_the_job"
    assert record.__dict__["taskmq"] == {
        "job_id": "J1",
        "task": "shop.pay",
        "attempt": 2,
        "queue": "email",
        "worker": "w1",
        "to": "a@b.com",
        "message": "a field of that name",
    }


def test_log_levels(caplog: pytest.LogCaptureFixture) -> None:
    log = context(FakeClock()).log
    with caplog.at_level(logging.INFO):
        log.debug("not wanted")
        log.warning("careful")
        log.error("bad")
        try:
            raise ValueError("worse")
        except ValueError:
            log.exception("caught")
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("WARNING", "careful"),
        ("ERROR", "bad"),
        ("ERROR", "caught"),
    ]
    assert "ValueError: worse" in caplog.text


def test_publish_hands_the_trace_on() -> None:
    made = context(FakeClock(), trace={"traceparent": "00-1"})

    @made.app.task
    def child(x: int) -> None: ...

    record = made.publish(child, 5).record
    assert record is not None
    assert load(record.envelope).trace == {"traceparent": "00-1"}
    assert bytes(load(record.envelope).args) == b"[5]"


@pytest.mark.parametrize(
    ("policy", "last"),
    [
        ({"retry": Retry(max_attempts=3)}, [False, False, True]),
        ({}, [False, False, True]),  # the default policy is what requests are held to
        ({"retry": Retry(max_attempts=3), "ack": "on_completion"}, [True]),
    ],
)
def test_a_task_knows_its_last_attempt(policy: dict[str, Any], last: list[bool]) -> None:
    seen = []
    app = App(Config(eager=True))

    def work() -> None:
        seen.append(current_task().is_last_attempt)
        raise current_task().retry(delay=0)

    assert app.task(**policy)(work).delay().state == "FAILED"
    assert seen == last
