"""Eager mode: the real executor in the calling thread, with delays skipped."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from taskmq import (
    App,
    Config,
    ConfigError,
    JobExpired,
    RemoteError,
    ResultTimeout,
    Retry,
    Task,
    current_task,
)
from taskmq.call import Call
from taskmq.eager import LeapingClock
from taskmq.envelope import Dependency
from taskmq.errors import ReleaseJob
from taskmq.plugins import open_transport
from taskmq.testing import FakeClock

DAY = 86_400.0


@pytest.fixture
def app() -> App:
    return App(Config(eager=True), clock=FakeClock())


def test_a_job_is_finished_when_it_is_submitted(app: App) -> None:
    thread = threading.current_thread()

    @app.task
    def add(x: int, y: int) -> int:
        assert threading.current_thread() is thread
        return x + y

    result = add.delay(1, 2)
    assert (result.state, result.get()) == ("SUCCEEDED", 3)
    assert [each.get() for each in add.submit_many([(1, 1), (2, 2)])] == [2, 4]


def test_arguments_and_results_make_the_round_trip(app: App) -> None:
    @app.task
    def echo(x: tuple[int, ...], y: Any) -> Any:
        return [x, y]

    assert echo.delay((1, 2), (3, 4)).get() == [[1, 2], [3, 4]]


def test_retries_run_with_their_delays_skipped(app: App) -> None:
    starts: list[float] = []

    @app.task(retry=Retry(max_attempts=3, base=DAY, max_delay=DAY, jitter=False))
    def flaky() -> int:
        starts.append(app.clock.now())
        if current_task().attempt < 3:
            raise OSError("not yet")
        return current_task().attempt

    assert flaky.delay().get() == 3
    assert [after - before for before, after in itertools.pairwise(starts)] == [DAY, DAY]


def test_a_failure_is_in_the_handle(app: App) -> None:
    @app.task
    def fail() -> NoReturn:
        raise ValueError("no")

    with pytest.raises(RemoteError, match=r"builtins\.ValueError: no"):
        fail.delay().get()
    assert [letter.dead_reason for letter in app.dead_letters.list()] == ["error"]


def test_a_delayed_job_runs_at_once_and_later_ones_keep_their_time(app: App) -> None:
    when = app.task(name="when")(lambda: app.clock.now())
    start = app.clock.now()
    assert when.submit(eta=DAY).get() == start + DAY
    assert when.submit(expires=60).get() >= start + DAY  # counts from the time that it is by now
    assert when.submit(eta=-DAY).get() >= start + DAY


def test_what_expired_never_runs(app: App) -> None:
    task: Task[[], Any] = app.task(name="t")(lambda: pytest.fail("ran"))
    for options in ({"expires": 0.0}, {"expires": -1.0}, {"eta": 60.0, "expires": 30.0}):
        result = task.call().options(**options).submit()
        assert result.state == "EXPIRED"
        with pytest.raises(JobExpired):
            result.get()


def test_a_job_of_a_job_runs_after_it(app: App) -> None:
    order: list[str] = []
    child = app.task(name="child")(lambda: order.append("child"))

    @app.task
    def parent() -> str:
        handle = child.delay()
        order.append("parent")
        return handle.id

    assert app.result(parent.delay().get()).state == "SUCCEEDED"
    assert order == ["parent", "child"]


def test_a_task_may_wait_for_another(app: App) -> None:
    add = app.task(name="add")(lambda x, y: x + y)

    @app.task
    def parent(depth: int) -> int:
        return depth and parent.delay(depth - 1).get() + add.submit(1, 0, eta=DAY).get()

    assert parent.delay(5).get() == 5


def test_a_chain_of_jobs_needs_no_stack(app: App) -> None:
    @app.task
    def count(left: int) -> None:
        if left:
            count.delay(left - 1)

    count.delay(2_000)
    assert app.transport.stats() == []


def test_dependents_run_with_the_results_of_what_they_waited_for(app: App) -> None:
    add: Any = app.task(name="add")(lambda x, y: x + y)
    first = add.call(1, 2).options(id="FIRST")
    second: Call[int] = Call(add, (10,), after=(Dependency("FIRST", 1),))
    assert [each.get() for each in app.submit_many([second, first])] == [13, 3]


def test_what_cannot_run_is_parked_and_waiting_for_it_ends(app: App) -> None:
    stranger = App(Config()).task(name="stranger")(print)
    result = app.submit(Call(stranger))
    assert (result.state, result.info["parked_reason"]) == ("QUEUED", "unknown_task")
    with pytest.raises(ResultTimeout, match=r"is QUEUED \(unknown_task\), and nothing runs it"):
        result.get()


def test_a_released_job_runs_again(app: App) -> None:
    gates = iter([False, False, True])

    @app.task
    def gated() -> int:
        if not next(gates):
            raise ReleaseJob(delay=DAY)
        return current_task().attempt

    assert gated.delay().get() == 1


def test_modules_are_loaded_as_a_worker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    app = App(Config(eager=True), include=["m"])
    monkeypatch.setattr(app, "include", lambda *names: loaded.extend(names))
    app.task(name="t")(print).delay()
    assert loaded == ["m"]


def test_an_interrupt_passes_and_the_next_submit_works(app: App) -> None:
    bodies: list[Callable[[], Any]] = [lambda: (_ for _ in ()).throw(KeyboardInterrupt), dict]

    @app.task
    def interrupted() -> None:
        next(iter([bodies.pop(0)()]))

    with pytest.raises(KeyboardInterrupt):
        interrupted.delay()
    app.task(name="next")(print).delay()


def test_threads_may_submit_at_once(app: App) -> None:
    double = app.task(name="double")(lambda x: 2 * x)
    values: list[int] = []

    def submit(start: int) -> None:
        values.extend(double.delay(x).get(timeout=10) for x in range(start, start + 50))

    threads = [threading.Thread(target=submit, args=(50 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(values) == [2 * x for x in range(200)]


def test_a_coroutine_submits_and_a_coroutine_task_runs(app: App) -> None:
    @app.task
    async def double(x: int) -> int:
        await asyncio.sleep(0)
        return 2 * x

    async def main() -> Any:
        return await (await double.adelay(4)).aget()

    assert asyncio.run(main()) == 8
    assert double.delay(5).get() == 10


def test_it_brings_its_own_store() -> None:
    with pytest.raises(ConfigError, match="eager=True runs jobs in a store of its own"):
        App(Config(eager=True), transport=open_transport("memory://"))
    assert not App(Config(eager=True, transport="sqlite:///x.db")).transport.capabilities.durable


def test_a_leap_moves_both_hands_and_never_back() -> None:
    inner = FakeClock()
    clock = LeapingClock(inner)
    now, monotonic = clock.now(), clock.monotonic()
    clock.leap_to(now + 5)
    clock.leap_to(now + 1)
    assert (clock.now() - now, clock.monotonic() - monotonic) == (5, 5)
    inner.advance(1)
    assert clock.now() - now == 6
