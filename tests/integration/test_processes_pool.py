"""The processes pool with real children, which are forks of the test's process."""

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, Retry, SoftTimeLimit, Task, TaskContext, current_task
from taskmq.events import CollectingSink, Event, JobFailed, JobSucceeded
from taskmq.executor import Outcome
from taskmq.hooks import WorkerHook
from taskmq.pools import Setting
from taskmq.pools.processes import ProcessPool
from taskmq.pools.processes.limits import resident_bytes
from taskmq.transport import (
    Ack,
    DeadLetter,
    Delivery,
    Nack,
    Reservation,
    RetryLater,
    Revoke,
    Settlement,
)
from taskmq.worker import Worker


class Bench:
    """A pool, and the store that its deliveries come from."""

    def __init__(self, folder: Path, hook: WorkerHook | None = None, **config: Any) -> None:
        self.folder = folder
        settings = {"concurrency": 2, "start_method": "fork", **config}
        self.app = App(Config(pool="processes", max_message_bytes=16 * 1024 * 1024, **settings))
        self.hook = hook
        self.outcomes: list[Outcome] = []
        self.pool: ProcessPool
        self._came = threading.Condition()

    def start(self) -> None:
        config = self.app.config
        hooks = [*self.app.hooks, *([self.hook] if self.hook else [])]
        self.pool = ProcessPool(config.concurrency, Setting(self.app, config, "w", hooks))
        self.pool.prepare()
        self.pool.start(_never, self._put)

    def _put(self, outcome: Outcome) -> None:
        with self._came:
            self.outcomes.append(outcome)
            self._came.notify_all()

    def take(self, limit: int = 1000) -> list[Delivery]:
        wanted = Reservation(queues={"default": 1}, worker="w", lease=60.0, limit=limit)
        return list(self.app.transport.reserve(wanted))

    def run(self, task: Any, *args: Any, **options: Any) -> Delivery:
        """Submit a job and give it to the pool."""
        task.call(*args).options(**options).submit()
        (delivery,) = self.take()
        self.pool.submit([delivery])
        return delivery

    def settled(self, count: int = 1, timeout: float = PATIENCE) -> list[Settlement]:
        """Wait for so many outcomes."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.outcomes) >= count, timeout)
            return [outcome.settlement for outcome in self.outcomes]

    def running(self, job_id: str) -> Any:
        return wait_for(lambda: self.pool.remote.get(job_id))

    def note(self, name: str, text: str = "") -> None:
        """For tasks: leave word for the test. Complete as soon as it is there."""
        part = self.folder / f".{name}.{os.getpid()}"
        part.write_text(text)
        part.rename(self.folder / name)

    def word(self, name: str) -> str:
        return str(wait_for(lambda: (f := self.folder / name).exists() and (f.read_text() or " ")))


def _never(delivery: Delivery) -> Outcome:
    raise AssertionError("children have an executor of their own")


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[MakeBench]:
    made: list[Bench] = []

    def make(**options: Any) -> Bench:
        made.append(Bench(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        assert one.pool.stop(0.0), "children are left"
        one.app.close()


def value(bench: Bench, settlement: Settlement) -> Any:
    assert isinstance(settlement, Ack)
    assert settlement.result is not None
    return bench.app.codecs.decode(settlement.result)


def test_jobs_run_in_other_processes_and_their_results_come_back(bench: MakeBench) -> None:
    b = bench()

    @b.app.task
    def work(number: int) -> list[int]:
        return [number * 2, os.getpid()]

    b.start()
    work.submit_many([(n,) for n in range(500)])
    b.pool.submit(b.take())
    results = [value(b, settlement) for settlement in b.settled(500)]
    assert sorted(result[0] for result in results) == [n * 2 for n in range(500)]
    pids = {result[1] for result in results}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_what_has_not_started_can_be_taken_back_whatever_the_child_does(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task
    def noop(number: int) -> None: ...

    @b.app.task
    def freeze() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    b.start()
    noop.submit_many([(n,) for n in range(50)])
    b.pool.submit(b.take())
    b.settled(50)  # jobs are short: many are sent ahead
    frozen = b.run(freeze)
    b.running(frozen.job_id)
    noop.submit_many([(n,) for n in range(20)])
    waiting = b.take()
    b.pool.submit(waiting)
    assert b.pool.unstarted() == 20
    assert b.pool.withdraw() == waiting
    assert b.pool.unstarted() == 0


def test_short_jobs_do_not_wait_behind_a_long_one(bench: MakeBench) -> None:
    b = bench()

    @b.app.task
    def sleep(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    b.start()
    sleep.submit_many([(0.0,)] * 50)
    b.pool.submit(b.take())
    b.settled(50)
    sleep.submit_many([(30.0,), *[(0.0,)] * 9])
    b.pool.submit(b.take())
    b.settled(59)
    assert len(b.pool.abort()) == 1


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_hundreds_of_large_jobs_each_in_a_child_of_its_own(bench: MakeBench) -> None:
    b = bench(max_jobs_per_child=1)

    @b.app.task
    def size(data: str) -> list[int]:
        return [len(data), os.getpid()]

    b.start()
    size.delay("x" * 8_000_000)
    (first,) = b.take()
    # The same bytes again and again: 2 GB of them would be a test of this machine.
    many = [msgspec.structs.replace(first, job_id=str(number)) for number in range(250)]
    b.pool.submit(many)
    results = [value(b, settlement) for settlement in b.settled(250, 120.0)]
    assert {result[0] for result in results} == {8_000_000}
    assert len({result[1] for result in results}) == 250


def test_a_soft_limit_interrupts_and_can_be_caught(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task(timeout=0.05)
    def patient() -> str:
        try:
            time.sleep(30)
        except SoftTimeLimit as error:
            return f"cleaned up: {error}"
        return "was not interrupted"

    @b.app.task(timeout=0.05)
    def stubborn() -> None:
        time.sleep(30)

    b.start()
    b.run(patient)
    assert value(b, b.settled(1)[0]) == "cleaned up: timeout of 0.05 s is over"
    b.run(stubborn)
    failed = b.settled(2)[1]
    assert isinstance(failed, DeadLetter)
    assert failed.failure.type == "taskmq.errors.SoftTimeLimit"
    assert "time.sleep(30)" in failed.failure.traceback


def test_a_soft_limit_ends_with_the_task(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task
    def sleep() -> str:
        time.sleep(0.15)
        return "slept"

    @b.app.task(timeout=0.1)
    def short() -> None: ...

    b.start()
    b.run(short)
    b.run(sleep)
    assert value(b, b.settled(2)[1]) == "slept"


class Told(WorkerHook):
    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def on_child_start(self, app: App) -> None:
        self._bench.note(f"started-{os.getpid()}")

    def on_child_stop(self, app: App) -> None:
        self._bench.note(f"stopped-{os.getpid()}")


def test_hooks_of_a_child_run_in_it_before_its_first_job_and_after_its_last(
    bench: MakeBench,
) -> None:
    b = bench(concurrency=1, max_jobs_per_child=2)
    b.hook = Told(b)

    @b.app.task
    def look() -> list[Any]:
        return [os.getpid(), (b.folder / f"started-{os.getpid()}").exists()]

    b.start()
    for number in range(1, 4):
        b.run(look)
        b.settled(number)
    (first, told), (again, _), (second, also) = (value(b, s) for s in b.settled(3))
    assert told
    assert also
    assert first == again != second
    b.word(f"stopped-{first}")


def test_a_child_that_has_grown_is_replaced_between_jobs(bench: MakeBench) -> None:
    fork = resident_bytes()  # a child begins as large as its parent
    b = bench(concurrency=1, max_memory_per_child=fork + 100 * 1024 * 1024)
    hoard: list[bytes] = []

    @b.app.task
    def grow(size: int) -> int:
        hoard.append(b"x" * size)
        return os.getpid()

    b.start()
    for number, size in enumerate((0, 200 * 1024 * 1024, 0), start=1):
        b.run(grow, size)
        b.settled(number)
    first, second, third = (value(b, settlement) for settlement in b.settled(3))
    assert first == second != third


def test_a_revoked_job_is_told_in_the_middle_of_its_work(bench: MakeBench) -> None:
    b = bench()

    @b.app.task
    def wait() -> None:
        context = current_task()
        b.note("here")
        while True:
            time.sleep(0.005)
            context.check_cancelled()

    b.start()
    delivery = b.run(wait)
    job = b.running(delivery.job_id)
    b.word("here")
    assert job.task == wait.name
    job.cancelled = True
    assert isinstance(b.settled(1)[0], Revoke)
    assert not b.pool.remote


def test_a_task_hears_that_its_lease_is_lost(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task
    def wait() -> bool:
        context = current_task()
        assert context.heartbeat()
        b.note("here")
        while not context.cancelled:
            time.sleep(0.005)
        return context.heartbeat() or not context.lease_lost

    b.start()
    job = b.running(b.run(wait).job_id)
    b.word("here")
    job.lease_lost = True
    job.cancelled = True
    assert value(b, b.settled(1)[0]) is False


def test_terminate_kills_the_child_and_revokes_the_job(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task
    def sleep() -> None:
        time.sleep(30)

    @b.app.task
    def noop() -> None: ...

    b.start()
    delivery = b.run(sleep)
    b.running(delivery.job_id)
    b.pool.terminate(delivery.job_id)
    assert b.settled(1) == [Revoke(delivery)]
    b.run(noop)
    assert isinstance(b.settled(2)[1], Ack)


def test_abort_gives_what_ran_and_no_outcome_of_it(bench: MakeBench) -> None:
    b = bench()

    @b.app.task
    def sleep() -> None:
        time.sleep(30)

    b.start()
    running = [b.run(sleep), b.run(sleep)]
    for delivery in running:
        b.running(delivery.job_id)
    assert sorted(d.job_id for d in b.pool.abort()) == sorted(d.job_id for d in running)
    assert b.outcomes == []
    assert not b.pool.remote


def test_stop_lets_what_runs_end(bench: MakeBench) -> None:
    b = bench()

    @b.app.task
    def sleep() -> None:
        time.sleep(0.1)

    b.start()
    delivery = b.run(sleep)
    b.running(delivery.job_id)
    assert b.pool.stop(PATIENCE)
    assert b.settled(1) == [Ack(delivery, b.settled(1)[0].result)]  # type: ignore[union-attr]  # an Ack


def test_events_of_children_reach_the_parents_sinks(bench: MakeBench) -> None:
    b = bench()
    sink = CollectingSink()
    b.app.add_sink(sink)

    @b.app.task
    def noop() -> None: ...

    b.start()
    b.run(noop)
    b.settled(1)
    names = [type(event).__name__ for event in sink.events]
    assert names == ["JobSubmitted", "JobStarted", "JobSucceeded"]


def test_a_task_cannot_reach_a_store_that_lives_in_the_worker(bench: MakeBench) -> None:
    b = bench()

    @b.app.task
    def submit() -> None:
        submit.delay()

    b.start()
    b.run(submit)
    failed = b.settled(1)[0]
    assert isinstance(failed, DeadLetter)
    assert "memory:// is of the worker's own process" in failed.failure.message


def test_slots_can_be_added_and_taken_away(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task
    def meet(number: int) -> None:
        b.note(f"here-{number}")
        while not (b.folder / "go").exists():
            time.sleep(0.002)

    b.start()
    b.pool.resize(3)
    for number in range(3):
        b.run(meet, number)
    for number in range(3):
        b.word(f"here-{number}")
    b.pool.resize(1)
    b.note("go")
    b.settled(3)
    assert b.pool.slots == 1
    assert wait_for(lambda: len(_children(b)) == 1)


def _children(bench: Bench) -> list[str]:
    """Process ids of the children, whose parent is the nursery."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == str(bench.pool.nursery):
                found.append(entry.name)
    return found


def test_sigterm_to_a_child_lets_it_finish_and_another_takes_its_place(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task
    def work(tell: bool) -> int:
        if tell:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
        return os.getpid()

    b.start()
    b.run(work, True)
    b.settled(1)
    b.run(work, False)
    first, second = (value(b, settlement) for settlement in b.settled(2))
    assert first != second
    assert not [o for o in b.outcomes if isinstance(o.settlement, Nack)]


def test_log_lines_of_children_are_written(
    bench: MakeBench, capfd: pytest.CaptureFixture[str]
) -> None:
    b = bench()
    handler = logging.StreamHandler()
    logging.getLogger("taskmq.task").addHandler(handler)

    @b.app.task
    def talk() -> None:
        current_task().log.warning("hello from a child")

    b.start()
    b.run(talk)
    b.settled(1)
    logging.getLogger("taskmq.task").removeHandler(handler)
    assert "hello from a child" in capfd.readouterr().err


def test_a_hard_limit_kills_the_child_and_only_its_job(bench: MakeBench) -> None:
    b = bench()
    told: list[str] = []

    @b.app.register
    class Hang(Task[[], None]):
        hard_timeout = 0.1
        retry = Retry(max_attempts=2, base=0, jitter=False)

        def run(self) -> None:
            while True:
                pass

        def on_retry(self, ctx: TaskContext, error: BaseException | None) -> None:
            told.append(f"retry {error}")

        def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
            told.append(f"failure {error}")

    @b.app.task
    def sleep() -> None:
        time.sleep(0.3)

    b.start()
    b.run(sleep)
    hung = b.run(Hang)
    (again,) = [s for s in b.settled(1) if isinstance(s, RetryLater)]
    assert again.delivery == hung
    assert again.failure.type == "taskmq.errors.HardTimeLimit"
    last = msgspec.structs.replace(hung, attempt=2)
    b.pool.submit([last])
    (dead,) = [s for s in b.settled(3) if isinstance(s, DeadLetter)]
    assert dead.reason == "max_attempts"
    assert told == ["retry hard_timeout of 0.1 s is over", "failure hard_timeout of 0.1 s is over"]
    assert len([s for s in b.settled(3) if isinstance(s, Ack)]) == 1


def test_stop_starts_nothing_more(bench: MakeBench) -> None:
    b = bench(concurrency=1)

    @b.app.task
    def sleep(seconds: float) -> None:
        time.sleep(seconds)

    b.start()
    sleep.submit_many([(0.0,)] * 50)
    b.pool.submit(b.take())
    b.settled(50)
    sleep.submit_many([(0.2,), *[(0.0,)] * 5])
    last = b.take()
    b.pool.submit(last)
    b.running(last[0].job_id)
    assert b.pool.stop(PATIENCE)
    assert len(b.settled(51)) == 51
    assert b.pool.withdraw() == last[1:]


def test_a_pool_that_was_prepared_and_not_started_leaves_nothing(bench: MakeBench) -> None:
    b = bench()
    b.pool = ProcessPool(1, Setting(b.app, b.app.config, "w"))
    b.pool.prepare()
    nursery = b.pool.nursery
    assert b.pool.stop(0.0)
    with pytest.raises(ProcessLookupError):
        os.kill(nursery, 0)


def test_a_child_that_dies_costs_its_job_a_reclaim_and_the_last_one_is_told(
    bench: MakeBench, caplog: pytest.LogCaptureFixture
) -> None:
    b = bench(concurrency=1)
    told: list[str] = []
    sink = CollectingSink()
    b.app.add_sink(sink)

    @b.app.register
    class Exit(Task[[], None]):
        max_deliveries = 2

        def run(self) -> None:
            os._exit(3)

        def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
            told.append(str(error))

        def on_lost(self, ctx: TaskContext, error: BaseException) -> None:
            lost_by.append(str(error))

    lost_by: list[str] = []
    b.start()
    delivery = b.run(Exit)
    (lost,) = b.settled(1)
    assert isinstance(lost, Nack)
    assert lost.detail.endswith("ended with exit code 3")
    assert told == []
    assert lost_by == [lost.detail]
    b.pool.submit([msgspec.structs.replace(delivery, reclaims=1)])
    b.settled(2)
    assert [text.partition(" ended")[2] for text in told] == [" with exit code 3"]
    failures = [event for event in sink.events if isinstance(event, JobFailed)]
    assert [event.will_retry for event in failures] == [True, False]
    assert "ended with exit code 3, while it ran job" in caplog.text


def test_that_a_job_started_is_told_before_how_it_ended(bench: MakeBench) -> None:
    """Also where the parent, busy until then, hears of both at once."""
    b = bench(concurrency=1)

    class BusyUntilADeath(CollectingSink):
        def handle(self, events: Sequence[Event]) -> None:
            super().handle(events)
            if isinstance(events[-1], JobSucceeded):
                assert select.select([b.pool._started._births.socket], [], [], PATIENCE)[0]

    sink = BusyUntilADeath()
    b.app.add_sink(sink)

    @b.app.task
    def noop() -> None: ...

    @b.app.task
    def exit() -> None:
        os._exit(3)

    b.start()
    told: list[list[str]] = []
    aftermath = b.pool._aftermath
    assert aftermath is not None
    settle = aftermath.settle

    def note_and_settle(*order: Any, **named: Any) -> None:
        told.append([type(event).__name__ for event in sink.events])
        settle(*order, **named)

    aftermath.settle = note_and_settle  # type: ignore[method-assign]  # it tells from its own thread
    noop.submit()
    exit.submit()
    b.pool.submit(b.take())
    b.settled(2)
    assert told[0][-2:] == ["JobSucceeded", "JobStarted"]


@pytest.mark.parametrize("kind", ["solo", "threads"])
def test_hooks_of_a_child_run_once_in_a_pool_without_children(kind: str) -> None:
    app = App(Config(pool=kind))
    told: list[str] = []

    class Note(WorkerHook):
        def on_child_start(self, app: App) -> None:
            told.append("start")

        def on_child_stop(self, app: App) -> None:
            told.append("stop")

    @app.task
    def work() -> None:
        told.append("job")

    app.add_hook(Note())
    work.submit_many([(), ()])
    Worker(app).run_until_idle(PATIENCE)
    assert told == ["start", "job", "job", "stop"]
