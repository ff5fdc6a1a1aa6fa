"""What every pool promises: order, exactly one fate per delivery, isolation, an end."""

import contextvars
import random
import threading
from collections.abc import Callable

import msgspec
import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq.errors import ConfigError
from taskmq.executor import Outcome
from taskmq.pools import Pool, SoloPool, ThreadPool, make_pool
from taskmq.pools.threads import CERTAIN, SHORT, UNCERTAIN, Brevity
from taskmq.transport import Ack, Delivery

FIRST = Delivery(
    job_id="0",
    queue="default",
    priority=0,
    envelope=b"{}",
    token=1,
    attempt=1,
    deliveries=1,
    reclaims=0,
    yields=0,
    lease_until=0.0,
)


def deliveries(count: int) -> list[Delivery]:
    return [msgspec.structs.replace(FIRST, job_id=str(number)) for number in range(count)]


class Finished:
    """Collects job ids of outcomes, and tells when there are as many as expected."""

    def __init__(self, expected: int) -> None:
        self.ids: list[str] = []
        self.all = threading.Event()
        self._expected = expected

    def __call__(self, outcome: Outcome) -> None:
        self.ids.append(outcome.settlement.delivery.job_id)
        if len(self.ids) >= self._expected:
            self.all.set()

    def expect(self, more: int) -> None:
        """After those that were expected first."""
        self._expected += more
        self.all.clear()


def ack(delivery: Delivery) -> Outcome:
    return Outcome(Ack(delivery))


def blocking(started: threading.Event, release: threading.Event) -> Callable[[Delivery], Outcome]:
    def execute(delivery: Delivery) -> Outcome:
        started.set()
        assert release.wait(PATIENCE)
        return ack(delivery)

    return execute


@pytest.fixture(params=[SoloPool, lambda: ThreadPool(1), lambda: ThreadPool(4)])
def pool(request: pytest.FixtureRequest) -> Pool:
    made: Pool = request.param()
    return made


def test_every_delivery_ends_once(pool: Pool) -> None:
    done = Finished(1000)
    pool.start(ack, done)
    for batch in range(10):
        pool.submit(deliveries(1000)[batch * 100 : batch * 100 + 100])
        pool.turn()
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)
    assert sorted(done.ids) == sorted(d.job_id for d in deliveries(1000))


@pytest.mark.parametrize("make", [SoloPool, lambda: ThreadPool(1)])
def test_one_slot_keeps_the_order(make: Callable[[], Pool]) -> None:
    pool, done = make(), Finished(300)
    pool.start(ack, done)
    pool.submit(deliveries(300))
    pool.turn()
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)
    assert done.ids == [str(number) for number in range(300)]


def test_context_variables_of_a_job_end_with_it(pool: Pool) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")
    seen, done = list[str](), Finished(20)

    def execute(delivery: Delivery) -> Outcome:
        seen.append(variable.get())
        variable.set("dirty")
        return ack(delivery)

    pool.start(execute, done)
    pool.submit(deliveries(20))
    pool.turn()
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)
    assert seen == ["clean"] * 20


def test_withdrawn_deliveries_never_start() -> None:
    pool, done = ThreadPool(1), Finished(1)
    started, release = threading.Event(), threading.Event()
    pool.start(blocking(started, release), done)
    pool.submit(deliveries(5))
    assert started.wait(PATIENCE)
    assert pool.unstarted() == 4
    assert [d.job_id for d in pool.withdraw()] == ["1", "2", "3", "4"]
    assert pool.unstarted() == 0
    release.set()
    assert pool.stop(PATIENCE)
    assert done.ids == ["0"]


def test_each_is_started_or_withdrawn_whatever_the_timing() -> None:
    pool, done, withdrawn, total = ThreadPool(4), Finished(1), list[str](), 0
    pool.start(ack, done)
    chance = random.Random(7)
    for size in [chance.randint(1, 40) for _ in range(400)]:
        pool.submit([msgspec.structs.replace(FIRST, job_id=f"{total + n}") for n in range(size)])
        total += size
        if chance.random() < 0.5:
            withdrawn += [d.job_id for d in pool.withdraw()]
    withdrawn += [d.job_id for d in pool.withdraw()]
    assert pool.stop(PATIENCE)
    assert len(withdrawn) + len(done.ids) == total
    assert not set(withdrawn) & set(done.ids)


def test_all_slots_work_at_once() -> None:
    pool, done, barrier = ThreadPool(4), Finished(4), threading.Barrier(4)

    def execute(delivery: Delivery) -> Outcome:
        barrier.wait(PATIENCE)
        return ack(delivery)

    pool.start(execute, done)
    pool.submit(deliveries(4))
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)


def test_slots_that_fell_asleep_wake_for_later_work() -> None:
    pool = ThreadPool(3)
    done = Finished(200)
    pool.start(ack, done)
    for delivery in deliveries(200):
        pool.submit([delivery])
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)


def test_stop_says_whether_something_still_runs() -> None:
    pool, done = ThreadPool(2), Finished(1)
    started, release = threading.Event(), threading.Event()
    pool.start(blocking(started, release), done)
    pool.submit(deliveries(1))
    assert started.wait(PATIENCE)
    assert not pool.stop(0.01)
    release.set()
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)


def warmed_up(slots: int, execute: Callable[[Delivery], Outcome]) -> tuple[ThreadPool, Finished]:
    """A pool that has run so many short jobs that it expects more of them."""
    pool, done = ThreadPool(slots), Finished(CERTAIN)
    pool.start(execute, done)
    for delivery in deliveries(CERTAIN):
        pool.submit([delivery])
    assert done.all.wait(PATIENCE)
    return pool, done


def test_one_slot_is_woken_for_short_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, done = warmed_up(8, ack)
    roused: list[int] = []
    monkeypatch.setattr(pool, "_rouse", roused.append)
    done.expect(100)  # the overseer may begin at once
    pool.submit(deliveries(100))
    assert roused == [1]
    monkeypatch.undo()
    pool._rouse(1)
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)


def test_short_jobs_do_not_wait_behind_a_long_one_while_slots_are_idle() -> None:
    release = threading.Event()

    def execute(delivery: Delivery) -> Outcome:
        if delivery.job_id == "long":
            assert release.wait(PATIENCE)
        return ack(delivery)

    pool, done = warmed_up(2, execute)
    done.expect(3)
    pool.submit([msgspec.structs.replace(FIRST, job_id="long"), *deliveries(3)])
    assert done.all.wait(PATIENCE / 2)
    release.set()
    assert pool.stop(PATIENCE)
    assert done.ids[CERTAIN:] == ["0", "1", "2", "long"]


def test_when_jobs_turn_out_short_one_slot_is_enough() -> None:
    """All are at work by then, and fall asleep though something waits."""
    together = threading.Barrier(4)

    def execute(delivery: Delivery) -> Outcome:
        if delivery.job_id == "together":
            together.wait(PATIENCE)
        elif pool.unstarted() and len(pool._idle) == 3:
            alone.set()
            pool.withdraw()
        return ack(delivery)

    pool, alone, done = ThreadPool(4), threading.Event(), Finished(0)
    pool.submit([msgspec.structs.replace(FIRST, job_id="together")] * 4)
    pool.submit([FIRST] * 200_000)
    pool.start(execute, done)
    wait_for(lambda: not pool.unstarted())
    assert alone.is_set()
    assert pool.stop(PATIENCE)


def test_a_lead_that_meets_a_long_job_is_relieved() -> None:
    """And once more, if its successor meets one."""
    release = threading.Event()

    def execute(delivery: Delivery) -> Outcome:
        if delivery.job_id.startswith("long"):
            assert release.wait(PATIENCE)
        return ack(delivery)

    pool, done = warmed_up(4, execute)
    done.expect(600)
    long = [msgspec.structs.replace(FIRST, job_id=f"long {number}") for number in range(3)]
    short = deliveries(600)
    pool.submit([*long[:1], *short[:200], *long[1:2], *short[200:400], *long[2:], *short[400:]])
    assert done.all.wait(PATIENCE / 2)
    release.set()
    assert pool.stop(PATIENCE)


def observed(brevity: Brevity, count: int, runtime: float, awake: int) -> bool:
    for _ in range(count):
        brevity.observe(runtime, awake)
    return brevity.is_certain


def test_slots_that_are_in_each_others_way_find_out_that_jobs_are_short() -> None:
    assert observed(Brevity(), CERTAIN, SHORT * 4, awake=8)
    assert not observed(Brevity(), 10 * CERTAIN, SHORT * 4, awake=1)


def test_one_job_that_was_held_up_changes_nothing() -> None:
    brevity = Brevity()
    observed(brevity, 2 * CERTAIN, 0.0, awake=1)
    assert observed(brevity, 1, 1.0, awake=1)


def test_the_next_trial_comes_later_where_jobs_wait_for_something_else() -> None:
    """Jobs of which one slot alone would do few."""
    brevity, alone, together = Brevity(), 0, 0
    for _ in range(100_000):
        if brevity.is_certain:
            brevity.observe(3 * SHORT, awake=1)
            alone += 1
        else:
            brevity.observe(3 * SHORT, awake=8)
            together += 1
    assert alone < together / 500
    observed(brevity, UNCERTAIN, 0.0, awake=8)
    assert observed(brevity, CERTAIN, 0.0, awake=1)
    observed(brevity, 3, 1.0, awake=1)
    assert observed(brevity, 2 * CERTAIN, 0.0, awake=8)  # it had been worth the trial


def test_slots_have_names() -> None:
    pool, done, names = ThreadPool(1), Finished(1), list[str]()

    def execute(delivery: Delivery) -> Outcome:
        names.append(threading.current_thread().name)
        return ack(delivery)

    pool.start(execute, done)
    pool.submit(deliveries(1))
    assert done.all.wait(PATIENCE)
    assert pool.stop(PATIENCE)
    assert names == ["taskmq-slot-1"]


def test_solo_hands_outcomes_over_before_everything_is_done() -> None:
    pool, done = SoloPool(), Finished(1)
    pool.start(lambda delivery: Outcome(Ack(delivery), runtime=1.0), done)
    pool.submit(deliveries(3))
    pool.turn()
    assert (done.ids, pool.unstarted()) == (["0"], 2)


def test_solo_has_one_slot_whatever_the_concurrency() -> None:
    assert make_pool("solo", 8).slots == 1
    assert make_pool("threads", 8).slots == 8


def test_unknown_pool_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no pool 'fibres'"):
        make_pool("fibres", 1)
