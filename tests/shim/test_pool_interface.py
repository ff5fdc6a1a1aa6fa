"""`celery.concurrency`: pools that a program uses, and makes, by itself."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import operator
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from billiard.exceptions import WorkerLostError
from tests.waiting import PATIENCE

from celery import Celery, concurrency
from celery.concurrency import prefork, solo, thread
from celery.concurrency.base import BasePool, apply_target
from celery.contrib.testing.mocks import TaskMessage
from celery.contrib.testing.worker import start_worker
from celery.exceptions import TaskRevokedError, WorkerShutdown
from celery.signals import worker_process_init
from celery.worker import state
from celery.worker.request import Request

pytestmark = pytest.mark.unit


def test_a_call_here_and_now() -> None:
    seen: list[Any] = []
    apply_target(
        operator.add,
        (2, 3),
        callback=seen.append,
        accept_callback=lambda pid, when: seen.append(pid),
    )
    assert seen == [os.getpid(), 5]


class Killed(BaseException):
    pass


def raising(error: BaseException) -> Any:
    def target() -> None:
        raise error

    return target


@pytest.mark.parametrize("error", [KeyError("x"), WorkerShutdown(0)])
def test_exceptions_and_the_end_of_the_worker_are_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        apply_target(raising(error))


def test_what_else_ends_a_call_is_a_lost_worker() -> None:
    seen: list[Any] = []
    apply_target(raising(Killed()), callback=seen.append)
    assert seen[0].type.__name__ == "WorkerLostError"
    with pytest.raises(Killed):
        apply_target(raising(Killed()), propagate=(Killed,))


def test_the_solo_pool_calls_at_once_and_tells_that_it_is_a_process() -> None:
    told: list[Any] = []

    @worker_process_init.connect(weak=False)
    def heard(sender: Any = None, **_: Any) -> None:
        told.append(sender)

    try:
        pool = solo.TaskPool(initargs=(None, "w1@box"))
    finally:
        worker_process_init.disconnect(heard)
    pool.start()
    seen: list[int] = []
    pool.apply_async(operator.mul, (6, 7), callback=seen.append)
    assert (seen, told, pool.active) == ([42], ["w1@box"], True)
    assert pool.info["processes"] == [os.getpid()]
    pool.stop()
    assert not pool.active


def test_the_threads_pool_calls_in_its_threads_until_it_is_stopped() -> None:
    pool = thread.TaskPool(1)
    given = pool.apply_async(threading.get_ident)
    given.wait(timeout=10)
    where: list[int] = []
    pool.apply_async(threading.get_ident, callback=where.append).wait(timeout=10)
    assert where != [threading.get_ident()]
    pool.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        pool.apply_async(threading.get_ident)


def pid_and(number: int) -> tuple[int, int]:
    if number < 0:
        raise ValueError(number)
    return os.getpid(), number


def kill(pid: int | None = None) -> None:
    os.kill(pid or os.getpid(), signal.SIGKILL)


@pytest.fixture
def processes() -> Iterator[prefork.TaskPool]:
    app = Celery("t", broker="memory://", set_as_current=False)
    pool = prefork.TaskPool(2, app=app, initargs=(app, "w1@box"))
    pool.start()
    pool.prepare_calls()
    yield pool
    pool.terminate()


def test_the_prefork_pool_calls_in_processes(processes: prefork.TaskPool) -> None:
    told: list[Any] = []
    given = [
        processes.apply_async(
            pid_and, (number,), accept_callback=lambda pid, when: told.append(pid)
        )
        for number in range(4)
    ]
    answers = [each.get(timeout=PATIENCE) for each in given]
    assert [number for _, number in answers] == [0, 1, 2, 3]
    assert sorted(pid for pid, _ in answers) == sorted(told)
    assert os.getpid() not in told
    assert len(set(told)) <= 2
    with pytest.raises(ValueError, match="-1"):
        processes.apply_async(pid_and, (-1,)).get(timeout=PATIENCE)
    with pytest.raises(RuntimeError, match="pickle"):
        processes.apply_async(threading.Lock).get(timeout=PATIENCE)
    processes.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        processes.apply_async(pid_and, (1,))


def test_a_process_that_is_lost_in_a_call_is_replaced(processes: prefork.TaskPool) -> None:
    told: list[Any] = []
    for how in (
        processes.apply_async(kill, error_callback=told.append),
        processes.apply_async(time.sleep, (PATIENCE,), accept_callback=lambda pid, _: kill(pid)),
    ):
        with pytest.raises(WorkerLostError, match="in the middle of a call"):
            how.get(timeout=PATIENCE)
    assert [each.type for each in told] == [WorkerLostError]
    assert processes.apply_async(pid_and, (1,)).get(timeout=PATIENCE)[1] == 1


def test_a_pool_without_a_worker_has_a_fixed_size() -> None:
    with pytest.raises(ValueError, match="belongs to no worker"):
        BasePool(3).grow()


def test_the_pool_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_CUSTOM_WORKER_POOL", "celery.concurrency.solo:TaskPool")
    assert concurrency.get_implementation("custom") is solo.TaskPool
    assert "custom" in concurrency.get_available_pool_names()


class Told(thread.TaskPool):
    seen: list[str] = []  # noqa: RUF012  # of this test

    def on_start(self) -> None:
        self.seen.append("start")

    def on_close(self) -> None:
        self.seen.append("close")

    def on_stop(self) -> None:
        self.seen.append("stop")


def test_a_worker_starts_and_stops_its_pool() -> None:
    app = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)

    @app.task(name="add")
    def add(x: int, y: int) -> int:
        return x + y

    with start_worker(app, pool=Told, perform_ping_check=False, concurrency=1):
        assert add.delay(1, 2).get(timeout=10) == 3
        assert Told.seen == ["start"]
    assert Told.seen == ["start", "close", "stop"]


# -- requests that such a pool runs ---------------------------------------------------------------


class Recording(BasePool):
    """Does what it is given at once, and notes what it is to end."""

    def __init__(self) -> None:
        super().__init__(1)
        self.ended: list[tuple[int, int]] = []

    on_apply = staticmethod(apply_target)

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        self.ended.append((pid, signal))


def a_request(args: Any = (2, 3)) -> Request:
    app = Celery("t", broker="memory://", backend="cache+memory://", set_as_current=False)

    @app.task(name="add", shared=False)
    def add(x: int, y: int) -> int:
        return x + y

    app.set_current()
    return Request(TaskMessage("add", args=args), app=app)


def test_a_pool_runs_the_task_of_a_request() -> None:
    request = a_request()
    request.execute_using_pool(Recording())
    assert request.task.AsyncResult(request.id).get(timeout=5) == 5
    assert request.acknowledged
    assert request.worker_pid == os.getpid()


def test_what_is_revoked_is_not_given_to_the_pool() -> None:
    request = a_request()
    state.revoked.add(request.id)
    with pytest.raises(TaskRevokedError):
        request.execute_using_pool(Recording())
    state.revoked.discard(request.id)


def test_the_end_of_a_request_waits_for_its_begin() -> None:
    request, pool = a_request(), Recording()
    request.terminate(pool, "TERM")
    assert pool.ended == []
    request.on_accepted(314, 0.0)
    assert pool.ended == [(314, 15)]
    assert request.task.AsyncResult(request.id).state == "REVOKED"
