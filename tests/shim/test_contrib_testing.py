"""`celery.contrib.testing`: apps, and workers in a thread of the test."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import celery
from celery import Celery, _state
from celery.contrib.testing import mocks
from celery.contrib.testing import worker as testing_worker
from celery.contrib.testing.app import TestApp, Trap, setup_default_app
from celery.contrib.testing.manager import Manager
from celery.contrib.testing.worker import start_worker

pytestmark = pytest.mark.integration


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Celery]:
    made = TestApp(config={"broker_url": f"sqlite:///{tmp_path}/jobs.db"})
    with setup_default_app(made):
        yield made
    made.close()


@pytest.mark.parametrize("pool", ["solo", "threads", "prefork"])
def test_a_worker_runs_tasks_while_the_test_goes_on(app: Celery, pool: str) -> None:
    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    told: list[str] = []

    def listen(name: str) -> Any:
        def receiver(**kwargs: Any) -> None:
            told.append(name)

        getattr(testing_worker, f"test_worker_{name}").connect(receiver, weak=False)
        return receiver

    receivers = {name: listen(name) for name in ("starting", "started", "stopped")}
    with start_worker(app, pool=pool, loglevel="error") as running:
        assert running.app is app
        assert add.delay(2, 2).get(timeout=20) == 4
    assert add.delay(2, 2).state == "PENDING"  # the store is open, and nobody works
    assert told == ["starting", "started", "stopped"]
    for name, receiver in receivers.items():
        getattr(testing_worker, f"test_worker_{name}").disconnect(receiver)


def test_what_a_child_logs_is_heard_in_the_test(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    def warn() -> None:
        logging.getLogger("shop").warning("seen")

    with start_worker(app, pool="prefork", loglevel="warning"):
        warn.delay().get(timeout=20)
    assert [r.getMessage() for r in caplog.records if r.name == "shop"] == ["seen"]


def test_a_task_that_goes_on_for_too_long_is_told_of(app: Celery) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @app.task
    def long() -> None:
        begun.set()
        may_end.wait(20)

    def run() -> None:
        with start_worker(app, pool="threads", shutdown_timeout=0.05):
            long.delay()
            assert begun.wait(20)

    with pytest.raises(RuntimeError, match="failed to exit within"):
        run()
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "celery-test-worker":
            thread.join(20)


def enter_and_leave(app: Celery) -> None:
    with start_worker(app):
        raise AssertionError("there is no worker")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_cannot_start_is_told_of(app: Celery) -> None:
    app.conf["broker_url"] = "sqlite:////nowhere/at/all/jobs.db"
    with pytest.raises(RuntimeError, match="did not start"):
        enter_and_leave(app)


def test_without_the_ping_task_the_check_says_so(app: Celery) -> None:
    del app.tasks["celery.ping"]
    with pytest.raises(RuntimeError, match=r"celery\.ping is no task of"):
        enter_and_leave(app)


def test_an_app_for_tests() -> None:
    app = TestApp("mine", config={"task_always_eager": True}, backend="rpc://")
    assert app.main == "mine"
    assert app.conf.task_always_eager
    assert app.conf.broker_url == "memory://"
    assert app.conf.result_backend == "rpc://"
    assert not isinstance(TestApp(enable_logging=True).log, type(app.log))


def test_a_trap_instead_of_the_current_app(app: Celery) -> None:
    with setup_default_app(app, use_trap=True):
        assert isinstance(_state.default_app, Trap)
        with pytest.raises(RuntimeError, match="depends on current_app"):
            celery.current_app.tasks  # noqa: B018
        caught: list[Exception] = []

        def elsewhere() -> None:
            try:
                celery.current_app.tasks  # noqa: B018
            except RuntimeError as error:
                caught.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert caught
        app.set_current()
        assert celery.current_app.main == "celery.tests"


def test_what_a_test_makes_current_is_undone() -> None:
    before = _state.default_app, _state._tls.current_app, _state._last_current
    finalizers = len(_state._on_app_finalizers)
    with setup_default_app(TestApp()):
        other = TestApp(set_as_current=True)
        other.set_default()

        @celery.shared_task
        def shared() -> None: ...

    assert (_state.default_app, _state._tls.current_app, _state._last_current) == before
    assert len(_state._on_app_finalizers) == finalizers


def test_messages() -> None:
    message = mocks.TaskMessage("proj.add", id="1", args=(2, 2), kwargs={"z": 1}, shadow="plus")
    assert message.headers == {"id": "1", "task": "proj.add", "shadow": "plus"}
    empty = {"callbacks": None, "errbacks": None, "chain": None}
    assert message.payload == ((2, 2), {"z": 1}, empty)
    assert message.content_type == "application/json"
    old = mocks.TaskMessage1("proj.add", id="1", args=(2, 2))
    assert old.headers == {}
    assert old.payload["task"] == "proj.add"


def test_the_message_of_a_signature() -> None:
    app = TestApp()

    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    signature = add.s(2, 2).set(countdown=10, expires=20, task_id="1")
    message = mocks.task_message_from_sig(app, signature)
    assert message.headers["id"] == "1"
    assert message.headers["eta"] < message.headers["expires"]


def test_a_mock_for_with() -> None:
    mock = mocks.ContextMock(name="lock")
    with mock as opened:
        assert opened is mock
    mock.__exit__.assert_called_once_with(None, None, None)


def test_a_manager_waits(capsys: pytest.CaptureFixture[str]) -> None:
    manager = Manager(TestApp())
    answers = iter(["no", "yes"])

    def ask() -> str:
        answer = next(answers)
        if answer == "no":
            raise ValueError(answer)
        return answer

    quick: Any = {"interval_start": 0, "interval_step": 0, "interval_max": 0}
    assert manager.wait_for(ask, ValueError, desc="it", emit_warning=True, **quick) == "yes"
    assert capsys.readouterr().err == "Still waiting for it.  Trying again now: ValueError('no')\n"
    with pytest.raises(AssertionError, match="Should not have happened: thing"):
        manager.ensure_not_for_a_while(lambda: None, ValueError)
    manager.ensure_not_for_a_while(lambda: 1 / 0, ZeroDivisionError, max_retries=1, **quick)


def test_a_manager_empties_the_queues(app: Celery) -> None:
    app.send_task("proj.add", (2, 2))
    app.send_task("proj.add", (2, 2))
    Manager(app).wait_until_idle()
    assert app.control.purge() == 0
