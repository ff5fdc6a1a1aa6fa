"""Deliveries that a hook of the worker takes: it says what becomes of them, and when."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, JobState
from taskmq.codec import Payload
from taskmq.hooks import WorkerHook
from taskmq.testing import FakeClock
from taskmq.transport import Ack, Delivery, Release, Reservation, Settled
from taskmq.worker import Worker

RunWorker = Callable[..., Any]


class Collector(WorkerHook):
    """Takes whatever is in its queue, and does nothing with it by itself."""

    def __init__(self, queue: str = "batch", most: int = 128) -> None:
        self.most_taken = most
        self.taken: list[Delivery] = []
        self.stopping = threading.Event()
        self._queue = queue

    def take(self, worker: Worker, deliveries: Sequence[Delivery]) -> list[Delivery]:
        taken = [each for each in deliveries if each.queue == self._queue]
        self.taken += taken
        return taken

    def on_leaving(self, worker: Worker) -> None:
        self.stopping.set()

    def wait_for(self, count: int) -> list[Delivery]:
        wait_for(lambda: len(self.taken) >= count, f"{count} deliveries")
        return self.taken


@pytest.fixture(params=["solo", "threads"])
def app(request: pytest.FixtureRequest) -> App:
    made = App(Config(transport="memory://", pool=request.param, concurrency=2))
    made.task(name="batched", queue="batch")(lambda number: number)
    made.task(name="plain", queue="plain")(lambda number: number)
    return made


QUEUES = ["batch", "plain"]


def test_they_take_no_slot_and_end_as_the_hook_says(app: App, run_worker: RunWorker) -> None:
    hook = Collector()
    app.add_hook(hook)
    worker = run_worker(app, queues=QUEUES).worker
    jobs = app.tasks["batched"].submit_many([(number,) for number in range(7)])
    taken = hook.wait_for(7)
    assert app.tasks["plain"].delay(5).get(PATIENCE) == 5
    assert {job.state for job in jobs} == {JobState.RUNNING}
    assert {each.job_id for each in worker.in_flight()} == {job.id for job in jobs}
    answers = [app.codecs.encode(number) for number in range(6)]
    worker.settle([Ack(each, answer) for each, answer in zip(taken, answers, strict=False)])
    worker.start(taken[6:])  # this one runs after all
    by_id = {job.id: job for job in jobs}
    assert [by_id[each.job_id].get(PATIENCE) for each in taken] == list(range(7))


def test_no_more_than_the_hook_may_have_are_reserved(app: App, run_worker: RunWorker) -> None:
    hook = Collector(most=3)
    app.add_hook(hook)
    worker = run_worker(app, queues=QUEUES).worker
    app.tasks["batched"].submit_many([(number,) for number in range(5)])
    hook.wait_for(3)
    plain = app.tasks["plain"].delay(1)
    worker.settle([Ack(hook.taken[0])])
    hook.wait_for(4)
    assert plain.state == JobState.QUEUED  # it has all that it may have, again
    worker.settle(list(map(Ack, hook.taken[1:])))
    hook.wait_for(5)
    assert plain.get(PATIENCE) == 1


def test_a_stop_waits_for_them(app: App, run_worker: RunWorker) -> None:
    hook = Collector()
    app.add_hook(hook)
    running = run_worker(app, queues=QUEUES)
    done, unstarted = app.tasks["batched"].submit_many([(1,), (2,)])
    hook.wait_for(2)
    running.worker.stop()
    assert hook.stopping.wait(PATIENCE)
    assert running.is_alive
    by_id = {each.job_id: each for each in hook.taken}
    running.worker.settle([Ack(by_id[done.id]), Release(by_id[unstarted.id])])
    report = running.result()
    assert (report.succeeded, report.abandoned) == (1, 0)
    assert [done.state, unstarted.state] == [JobState.SUCCEEDED, JobState.QUEUED]


@pytest.mark.parametrize("how", ["stop_now", "within"])
def test_an_end_that_does_not_wait_gives_them_back(
    app: App, run_worker: RunWorker, how: str
) -> None:
    hook = Collector()
    app.add_hook(hook)
    running = run_worker(app, queues=QUEUES)
    job = app.tasks["batched"].delay(1)
    hook.wait_for(1)
    if how == "stop_now":
        running.worker.stop_now()
    else:
        running.worker.stop(within=0.01)
    running.result()
    assert job.state == JobState.QUEUED


def test_what_is_said_of_a_lease_that_got_lost_changes_nothing() -> None:
    clock = FakeClock()
    app = App(Config(transport="memory://", pool="solo", lease=30), clock=clock)
    app.task(name="batched", queue="batch")(lambda: 1)
    hook = Collector()
    worker = Worker(app, queues=["batch"], hook=hook)
    thread = threading.Thread(target=worker.run)
    thread.start()
    job = app.tasks["batched"].delay()
    (mine,) = hook.wait_for(1)
    wait_for(lambda: worker.in_flight() == [mine])
    app.transport.settle([Release(mine)])  # somebody else has it by now
    theirs = app.transport.reserve(
        Reservation(queues={"batch": 1}, worker="other", lease=30, limit=1)
    )[0]
    wait_for(lambda: mine not in worker.in_flight(), "the loss")
    worker.settle([Ack(mine, Payload("json", b"1"))])
    worker.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert [str(job.state), app.transport.settle([Ack(theirs)])] == ["RUNNING", [Settled.DONE]]
