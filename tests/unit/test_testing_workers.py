"""`worker_for` and its relatives: the functional spec's own examples, and what they stand on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config, Retry, current_app, current_task
from taskmq.errors import ConfigError
from taskmq.states import JobState
from taskmq.testing import (
    FailBefore,
    FakeClock,
    FaultPlan,
    WorkerCrashed,
    eager,
    isolated,
    worker_for,
)
from taskmq.transports.memory import MemoryTransport


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def app(clock: FakeClock) -> App:
    return App(Config(), transport=MemoryTransport(clock), clock=clock)


def failing(times: int) -> Callable[[], str]:
    """A function that fails that often, then works."""
    left = [None] * times

    def flaky() -> str:
        if left:
            left.pop()
            raise OSError("not yet")
        return "done"

    return flaky


# -- as in the functional spec --------------------------------------------------------------------


def test_eager_logic() -> None:
    app = App(Config(transport="memory://", eager=True))

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    handle = add.delay(1, 2)
    assert handle.state == "SUCCEEDED"
    assert handle.get() == 3


def test_retry_then_success_on_a_real_clock() -> None:
    app = App(Config(transport="memory://"))
    flaky = app.task(retry=Retry(base=0.05))(failing(1))
    with worker_for(app) as w:
        handle = flaky.delay()
        w.run_until_idle(timeout=5)
        assert handle.state == "SUCCEEDED"
        assert handle.info["attempt"] == 2


def test_worker_crash_redelivery(app: App) -> None:
    flaky = app.task(retry=Retry(base=1.0, jitter=False))(failing(1))
    with worker_for(app, crash_at={"flaky": 2}) as w:
        handle = flaky.delay()
        w.run_until_idle()
        w.advance(1.0)
        assert (handle.state, w.crashes) == (JobState.RUNNING, 1)
        w.advance(app.config.lease)
        assert handle.state == "SUCCEEDED"
        info = handle.info
        assert (info["attempt"], info["deliveries"], info["reclaims"]) == (2, 3, 1)


def test_a_job_that_always_kills_its_worker_is_a_dead_letter_after_its_ceiling(app: App) -> None:
    @app.task(name="poison", max_deliveries=3)
    def poison() -> None:
        runs.append(current_task().deliveries)

    runs: list[int] = []
    with worker_for(app, crash_at={poison: range(1, 100)}) as w:
        poison.delay()
        w.advance(10 * app.config.lease)
        (letter,) = w.dead_letters
    assert (letter.dead_reason, letter.reclaims) == ("worker_lost", 3)
    assert runs == [1, 2, 3]
    assert w.crashes == 3


# -- time ------------------------------------------------------------------------------------------


def test_a_clock_that_stands_still_is_moved_by_advance_alone(app: App) -> None:
    seen: list[float] = []

    @app.task
    def remind() -> None:
        seen.append(app.clock.now())

    start = app.clock.now()
    with worker_for(app) as w:
        handle = remind.submit(eta=3600)
        w.run_until_idle(timeout=PATIENCE)
        assert handle.state == "QUEUED"
        w.advance(3599)
        assert handle.state == "QUEUED"
        assert w.advance(100).succeeded == 1
    assert seen == [start + 3600]
    assert app.clock.now() == start + 3699


def test_advance_follows_a_chain_of_retries(app: App) -> None:
    flaky = app.task(retry=Retry(max_attempts=5, base=1.0, factor=2.0, jitter=False))(failing(4))
    with worker_for(app) as w:
        handle = flaky.delay()
        report = w.advance(1 + 2 + 4 + 8)
    assert handle.get(timeout=0) == "done"
    assert (report.retried, report.succeeded) == (4, 1)


def test_without_a_timeout_delayed_jobs_are_left_alone() -> None:
    app = App(Config())
    flaky = app.task(retry=Retry(base=60.0))(failing(1))
    with worker_for(app) as w:
        handle = flaky.delay()
        assert w.run_until_idle().retried == 1
        assert w.run_until_idle(timeout=1.0).processed == 0  # due much later than that
        assert handle.state == "RETRYING"


def test_a_clock_that_runs_cannot_be_advanced() -> None:
    with worker_for(App(Config())) as w, pytest.raises(TypeError, match="isolated"):
        w.advance(1.0)


# -- what runs -------------------------------------------------------------------------------------


def test_jobs_of_every_queue_run_and_so_do_those_that_they_submit(app: App) -> None:
    @app.task(queue="letters")
    def write() -> None:
        post.submit(queue="a-queue-that-was-not-there-before")

    @app.task
    def post() -> str:
        return "posted"

    with worker_for(app) as w:
        write.delay()
        assert w.run_until_idle(timeout=PATIENCE).succeeded == 2
        (posted,) = w.jobs("post")
        assert posted.state is JobState.SUCCEEDED


def test_the_solo_pool_runs_in_the_tests_own_thread(app: App) -> None:
    @app.task
    def where() -> str:
        return threading.current_thread().name

    with worker_for(app) as w:
        handle = where.delay()
        w.run_until_idle(timeout=PATIENCE)
        assert handle.get(timeout=0) == threading.current_thread().name


def test_the_threads_pool_runs_jobs_at_once(app: App) -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE)

    @app.task
    def meet() -> int:
        return meeting.wait()

    with worker_for(app, pool="threads", concurrency=3) as w:
        handles = meet.submit_many([()] * 3)
        w.run_until_idle(timeout=PATIENCE)
        assert {handle.get(timeout=0) for handle in handles} == {0, 1, 2}


def test_a_job_that_does_not_end_is_a_timeout(app: App) -> None:
    release = threading.Event()
    app.task(name="hang")(release.wait)
    with worker_for(app, pool="threads", concurrency=1) as w:
        app.tasks["hang"].delay()
        with pytest.raises(TimeoutError, match="not idle"):
            w.run_until_idle(timeout=0.2)
        release.set()


def test_a_task_sees_the_app_itself(app: App) -> None:
    seen: list[bool] = []
    app.task(name="look")(lambda: seen.append(current_app() is app))
    with worker_for(app) as w:
        app.tasks["look"].delay()
        w.run_until_idle(timeout=PATIENCE)
    assert seen == [True]


# -- crashes and faults ----------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_task_may_kill_its_worker_half_way(app: App, pool: Any) -> None:
    steps: list[str] = []

    @app.task
    def charge() -> None:
        steps.append("charged")
        try:
            if len(steps) == 1:
                raise WorkerCrashed
        except Exception:
            steps.append("never seen")
        steps.append("recorded")

    with worker_for(app, pool=pool, concurrency=1) as w:
        handle = charge.delay()
        w.run_until_idle(timeout=PATIENCE)
        assert (handle.state, w.crashes) == (JobState.RUNNING, 1)
        w.advance(app.config.lease)
    assert handle.state == "SUCCEEDED"
    assert steps == ["charged", "charged", "recorded"]


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_crash_takes_nobody_elses_job_with_it(app: App, pool: Any) -> None:
    runs: list[str] = []
    for name in ("flaky", "other"):
        app.task(name=name)(lambda name=name: runs.append(name))
    with worker_for(app, pool=pool, concurrency=1, crash_at={"flaky": 1}) as w:
        for name in ("flaky", "other", "other"):
            app.tasks[name].delay()
        w.run_until_idle(timeout=PATIENCE)
        assert w.crashes == 1
        w.advance(app.config.lease)
    assert sorted(runs) == ["flaky", "flaky", "other", "other"]


def test_a_worker_survives_the_faults_of_its_store(app: App) -> None:
    app.task(name="work")(lambda: None)
    plan = FaultPlan(FailBefore("exchange", nth=2))
    with worker_for(app, faults=plan) as w:
        handle = app.tasks["work"].delay()
        w.run_until_idle(timeout=PATIENCE)
    assert handle.state == "SUCCEEDED"
    assert len(plan.struck) == 1


def test_a_task_that_does_not_exist_cannot_crash(app: App) -> None:
    app.task(name="mail.send")(lambda: None)
    with (
        pytest.raises(ConfigError, match=r"no task 'mail.sent'; did you mean 'mail.send'\?"),
        worker_for(app, crash_at={"mail.sent": 1}),
    ):
        pass


def test_a_short_name_must_be_clear(app: App) -> None:
    for name in ("mail.send", "sms.send"):
        app.task(name=name)(lambda: None)
    with (
        pytest.raises(ConfigError, match=r"several tasks are called 'send': mail.send, sms.send"),
        worker_for(app, crash_at={"send": 1}),
    ):
        pass


# -- an app that is configured for production ------------------------------------------------------


@pytest.fixture
def production(tmp_path: Path) -> Iterator[App]:
    app = App(Config(transport=f"sqlite:///{tmp_path}/production.db"))
    app.task(name="work")(lambda: "done")
    yield app
    app.close()


def test_an_isolated_app_does_not_touch_its_store(production: App, tmp_path: Path) -> None:
    real = production.clock
    with isolated(production) as clock, worker_for(production) as w:
        assert production.clock is clock
        handle = production.tasks["work"].submit(eta=60)
        w.advance(60)
        assert handle.get(timeout=0) == "done"
    assert production.clock is real
    assert list(tmp_path.iterdir()) == []
    assert handle.state == "UNKNOWN"  # in the store of its own


def test_an_app_may_be_eager_for_a_while(production: App, tmp_path: Path) -> None:
    with eager(production):
        assert production.tasks["work"].submit(eta=60).get(timeout=0) == "done"
    assert list(tmp_path.iterdir()) == []
    assert production.tasks["work"].delay().state == "QUEUED"
