"""The asyncio pool: how coroutines are interrupted, isolated, counted and ended."""

import asyncio
import contextvars
import random
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config, ConfigError, JobState, Retry, Task, TaskContext, current_task
from taskmq.envelope import seal
from taskmq.executor import Executor, Outcome
from taskmq.pools import Setting, make_pool
from taskmq.pools.aio import AsyncioPool
from taskmq.transport import Ack, DeadLetter, Defer, Delivery, Nack, RetryLater, Revoke, Settlement


class Bench:
    """An app and a started pool; what came out of it is in ``outcomes``."""

    def __init__(self, slots: int = 4) -> None:
        self.app = App(Config(transport="memory://"))
        self.executor = Executor(self.app, worker="w1")
        self.pool = AsyncioPool(slots, self.executor)
        self.outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.pool.start(self.executor.execute, self.outcomes.put)
        self.started: SimpleQueue[str] = SimpleQueue()
        self.seen: list[asyncio.Task[Any] | None] = []

    def delivery(self, task: Task[..., Any], *args: Any) -> Delivery:
        envelope = self.app.seal(task.call(*args), self.app.clock.now()).envelope
        return Delivery(
            job_id=envelope.id,
            queue=envelope.queue,
            priority=0,
            envelope=seal(envelope, 10**6).data,
            token=1,
            attempt=1,
            deliveries=1,
            reclaims=0,
            yields=0,
            lease_until=0.0,
        )

    def submit(self, task: Task[..., Any], *args: Any) -> Delivery:
        delivery = self.delivery(task, *args)
        self.pool.submit([delivery])
        return delivery

    def next(self) -> Settlement:
        settlement: Settlement = self.outcomes.get(timeout=PATIENCE).settlement
        return settlement

    def run(self, task: Task[..., Any], *args: Any) -> Settlement:
        self.submit(task, *args)
        return self.next()

    def cancel(self, delivery: Delivery, *, lost: bool = False) -> None:
        """As the lease keeper does it, in another thread."""
        self.started.get(timeout=PATIENCE)
        context = self.executor.running[delivery.job_id]
        context.lease_lost, context.cancelled = lost, True


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    assert bench.pool.stop(PATIENCE)


def sleeper(bench: Bench, **policy: Any) -> Task[..., Any]:
    """A task that says that it has started, and sleeps until somebody ends it."""

    @bench.app.task(name="sleeper", **policy)  # type: ignore[untyped-decorator]  # as options are
    async def sleeper() -> None:
        bench.started.put(current_task().id)
        await asyncio.sleep(PATIENCE)

    made: Task[..., Any] = sleeper
    return made


def test_what_a_coroutine_returns_and_raises(bench: Bench) -> None:
    @bench.app.task(retry=Retry(max_attempts=2, retry_on=(OSError,)))
    async def divide(x: int, y: int) -> float:
        await asyncio.sleep(0)
        if y < 0:
            raise ConnectionError("below zero")
        return x / y

    done = bench.run(divide, 6, 3)
    assert isinstance(done, Ack)
    assert done.result is not None
    assert done.result.data == b"2.0"
    assert isinstance(bench.run(divide, 6, -1), RetryLater)
    failed = bench.run(divide, 6, 0)
    assert isinstance(failed, DeadLetter)
    assert failed.failure.type == "builtins.ZeroDivisionError"
    assert "taskmq/" not in failed.failure.traceback


def test_as_many_coroutines_at_once_as_there_are_slots(bench: Bench) -> None:
    running, most = 0, 0

    @bench.app.task
    async def count() -> None:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0.001)
        running -= 1

    bench.pool.submit([bench.delivery(count) for _ in range(50)])
    assert all(isinstance(bench.next(), Ack) for _ in range(50))
    assert most == 4


def test_jobs_that_never_wait_share_a_task_and_one_that_waits_has_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskmq.pools.aio.TURN", PATIENCE)  # however busy the machine is

    @bench.app.task
    async def own(seconds: float) -> int:
        before = asyncio.current_task()
        if seconds:
            await asyncio.sleep(seconds)
        assert asyncio.current_task() is before
        bench.seen.append(before)
        return 0

    assert isinstance(bench.run(own, 0), Ack)
    del bench.seen[:]
    bench.pool.submit([bench.delivery(own, seconds) for seconds in (0, 0, 0.001, 0, 0.001)])
    assert all(isinstance(bench.next(), Ack) for _ in range(5))
    short, waiting = bench.seen[:3], bench.seen[3:]
    assert waiting[0] is not waiting[1]
    if sys.version_info >= (3, 11):  # where a task says whether it is about to be cancelled
        assert short[0] is short[1]


def test_a_job_that_cancels_its_own_task_hurts_no_other(bench: Bench) -> None:
    @bench.app.task
    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    @bench.app.task
    async def wait() -> None:
        await asyncio.sleep(0)

    tasks: list[Any] = [cancel_itself, wait] * 10
    bench.pool.submit([bench.delivery(task) for task in tasks])
    assert all(isinstance(bench.next(), Ack) for _ in tasks)


def test_a_limit_counts_from_the_start_of_the_job(bench: Bench) -> None:
    @bench.app.task(timeout=0.02)
    async def late() -> None:
        end = time.monotonic() + 0.03
        while time.monotonic() < end:
            pass
        await asyncio.sleep(PATIENCE)

    ended = bench.run(late)
    assert isinstance(ended, DeadLetter)
    assert ended.failure.type == "taskmq.errors.SoftTimeLimit"


def test_withdrawn_deliveries_never_start(bench: Bench) -> None:
    task = sleeper(bench)
    deliveries = [bench.delivery(task) for _ in range(10)]
    bench.pool.submit(deliveries)
    started = {bench.started.get(timeout=PATIENCE) for _ in range(4)}
    assert bench.pool.unstarted() == 6
    withdrawn = {delivery.job_id for delivery in bench.pool.withdraw()}
    assert withdrawn == {delivery.job_id for delivery in deliveries} - started
    assert {delivery.job_id for delivery in bench.pool.abort()} == started
    assert bench.started.empty()


def test_a_timeout_cancels_at_the_await_and_fails_as_a_soft_time_limit(bench: Bench) -> None:
    settlement = bench.run(sleeper(bench, timeout=0.02))
    assert isinstance(settlement, DeadLetter)
    assert settlement.failure.type == "taskmq.errors.SoftTimeLimit"
    assert settlement.failure.message == "timeout of 0.02 s is over"
    assert "await asyncio.sleep(PATIENCE)" in settlement.failure.traceback


def test_a_retry_policy_covers_the_timeout(bench: Bench) -> None:
    assert isinstance(bench.run(sleeper(bench, timeout=0.02, retry=Retry())), RetryLater)


def test_a_task_may_clean_up_and_return_something_when_its_time_is_over(bench: Bench) -> None:
    @bench.app.task(timeout=0.02)
    async def partial() -> str:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it is cancelled once
        return "half"

    done = bench.run(partial)
    assert isinstance(done, Ack)
    assert done.result is not None
    assert done.result.data == b'"half"'


def test_a_timeout_that_was_not_used_ends_with_its_job(bench: Bench) -> None:
    @bench.app.task(timeout=0.02)
    async def quick() -> None: ...

    assert isinstance(bench.run(quick), Ack)
    settlement = bench.run(sleeper(bench, timeout=0.04))
    assert isinstance(settlement, DeadLetter)
    assert settlement.failure.message == "timeout of 0.04 s is over"


@pytest.mark.parametrize("lost", [False, True])
def test_a_revoked_job_and_a_lost_lease_cancel_the_coroutine(bench: Bench, lost: bool) -> None:
    delivery = bench.submit(sleeper(bench))
    bench.cancel(delivery, lost=lost)
    assert bench.next() == Revoke(delivery)


def test_a_job_that_swallows_its_cancellation_goes_on(bench: Bench) -> None:
    release: SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = SimpleQueue()

    @bench.app.task
    async def stubborn() -> bool:
        event = asyncio.Event()
        bench.started.put("")
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            release.put((asyncio.get_running_loop(), event))
        await event.wait()
        return current_task().cancelled

    delivery = bench.submit(stubborn)
    bench.cancel(delivery)
    bench.executor.running[delivery.job_id].cancelled = True  # told again: no second time
    loop, event = release.get(timeout=PATIENCE)
    loop.call_soon_threadsafe(event.set)
    done = bench.next()
    assert isinstance(done, Ack)
    assert done.result is not None
    assert done.result.data == b"true"


def test_a_cancelled_error_of_the_tasks_own_is_a_failure(bench: Bench) -> None:
    @bench.app.task
    async def confused() -> None:
        inner = asyncio.ensure_future(asyncio.sleep(PATIENCE))
        inner.cancel()
        await inner

    settlement = bench.run(confused)
    assert isinstance(settlement, DeadLetter)
    assert settlement.failure.type == "asyncio.exceptions.CancelledError"


@pytest.mark.parametrize(
    ("error", "settlement"),
    [(SystemExit(1), DeadLetter), (KeyboardInterrupt(), Nack), (GeneratorExit(), DeadLetter)],
)
def test_a_coroutine_that_raises_anything_costs_no_slot(
    bench: Bench, error: BaseException, settlement: type
) -> None:
    @bench.app.task
    async def leave() -> None:
        await asyncio.sleep(0)
        raise error

    @bench.app.task
    async def fine() -> None: ...

    bench.pool.submit([bench.delivery(leave) for _ in range(5)])
    assert [type(bench.next()) for _ in range(5)] == [settlement] * 5
    assert isinstance(bench.run(fine), Ack)


def test_a_task_that_ends_the_loop_does_not(bench: Bench) -> None:
    @bench.app.task
    async def stop_loop() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.001)

    assert isinstance(bench.run(stop_loop), Ack)


def test_each_job_has_a_context_of_its_own(bench: Bench) -> None:
    variable = contextvars.ContextVar("variable", default=0)

    @bench.app.task
    async def coroutine(number: int) -> list[Any]:
        before = variable.get()
        variable.set(number)
        await asyncio.sleep(0.001)
        in_thread = await asyncio.to_thread(lambda: current_task().id)
        return [before, variable.get() - number, in_thread == current_task().id]

    @bench.app.task
    def plain(number: int) -> list[Any]:
        before = variable.get()
        variable.set(number)
        return [before, variable.get() - number, True]

    tasks: list[Any] = [coroutine, plain] * 20
    bench.pool.submit([bench.delivery(task, n) for n, task in enumerate(tasks, 1)])
    for _ in tasks:
        done = bench.next()
        assert isinstance(done, Ack)
        assert done.result is not None
        assert done.result.data == b"[0,0,true]"


def test_plain_functions_run_in_threads_beside_the_loop_in_slots_like_others(bench: Bench) -> None:
    meet = threading.Barrier(4)

    @bench.app.task
    def plain() -> str:
        meet.wait(PATIENCE)
        return threading.current_thread().name

    for _ in range(2):
        bench.pool.submit([bench.delivery(plain) for _ in range(4)])
        names = set()
        for _ in range(4):
            done = bench.next()
            assert isinstance(done, Ack)
            assert done.result is not None
            names.add(done.result.data)
        assert names == {b'"taskmq-side-%d"' % number for number in range(1, 5)}


def test_hooks_are_called_once(bench: Bench) -> None:
    told: list[Any] = []

    class Hooked(Task[[], None]):
        timeout = 0.02

        async def run(self) -> None:  # type: ignore[override]  # a coroutine function
            await asyncio.sleep(PATIENCE)

        def before_start(self, ctx: TaskContext) -> None:
            told.append("before")

        def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
            told.append(type(error).__name__)

        def after_return(self, ctx: TaskContext, state: JobState) -> None:
            told.append(state)

    bench.run(bench.app.register(Hooked))
    assert told == ["before", "SoftTimeLimit", JobState.FAILED]


def test_a_job_that_cannot_run_takes_no_slot(bench: Bench) -> None:
    @bench.app.task
    async def fine(x: int = 0) -> None: ...

    @App(Config(transport="memory://")).task(name="elsewhere")
    async def elsewhere() -> None: ...

    strange = [bench.delivery(elsewhere) for _ in range(8)]
    bench.pool.submit(strange)
    assert [type(bench.next()) for _ in strange] == [Defer] * 8
    assert isinstance(bench.run(fine), Ack)


def test_abort_gives_back_what_lets_itself_be_cancelled(bench: Bench) -> None:
    cleaned: list[bool] = []
    hold = threading.Event()

    @bench.app.task
    async def tidy() -> None:
        bench.started.put("")
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            cleaned.append(True)

    @bench.app.task
    def plain() -> None:
        bench.started.put("")
        hold.wait(PATIENCE)

    ours = bench.submit(tidy)
    bench.submit(plain)
    for _ in range(2):
        bench.started.get(timeout=PATIENCE)
    assert bench.pool.abort() == [ours]
    assert cleaned == [True]
    assert bench.outcomes.empty()
    assert not bench.pool.stop(0.01)  # the thread still runs, and its outcome still comes
    hold.set()
    assert isinstance(bench.next(), Ack)


def test_stop_ends_what_tasks_have_left_in_the_loop(bench: Bench) -> None:
    ended = threading.Event()

    async def background() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.set()

    kept = []

    @bench.app.task
    async def leave_behind() -> None:
        kept.append(asyncio.ensure_future(background()))
        await asyncio.sleep(0)

    assert isinstance(bench.run(leave_behind), Ack)
    assert not ended.is_set()
    assert bench.pool.stop(PATIENCE)
    assert ended.is_set()


def test_a_pool_that_never_started_stops() -> None:
    app = App(Config(transport="memory://"))
    assert AsyncioPool(1, Executor(app)).stop(0)


def test_another_event_loop_is_used_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loop(asyncio.SelectorEventLoop):
        pass

    def make() -> Any:
        app = App(Config(transport="memory://", event_loop="uvloop"))
        setting = Setting(app, app.config, "w1", (), Executor(app))
        return make_pool("asyncio", 1, setting)

    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(ConfigError, match=r"uvloop.* is not installed: pip install 'taskmq-py\["):
        make()
    uvloop: Any = ModuleType("uvloop")
    uvloop.new_event_loop = Loop
    monkeypatch.setitem(sys.modules, "uvloop", uvloop)
    pool = make()
    pool.start(lambda delivery: Outcome(Ack(delivery)), lambda outcome: None)
    assert isinstance(pool._loop, Loop)
    assert pool.stop(PATIENCE)


@pytest.mark.parametrize("seed", range(20))
def test_every_delivery_ends_once_whatever_comes_between(seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench(chance.choice([1, 3, 30]))

    @bench.app.task(timeout=0.004)
    async def waits(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @bench.app.task
    def plain(seconds: float) -> None: ...

    tasks: list[Any] = [waits, waits, plain]
    ended: list[Delivery] = []
    for _ in range(10):
        batch = [bench.delivery(chance.choice(tasks), chance.random() / 100) for _ in range(10)]
        bench.pool.submit(batch)
        if chance.random() < 0.3:
            ended += bench.pool.withdraw()
        for context in list(bench.executor.running.values()):
            context.cancelled = context.cancelled or chance.random() < 0.2
    ended += bench.pool.withdraw() + bench.pool.abort()
    assert bench.pool.stop(PATIENCE)
    while not bench.outcomes.empty():
        ended.append(bench.next().delivery)
    assert len({delivery.job_id for delivery in ended}) == len(ended) == 100
    assert bench.executor.running == {}
