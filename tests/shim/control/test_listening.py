"""When a worker listens to orders: brokers, pools, settings, and a broker that goes away."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.exceptions import OperationalError
from tests import services
from tests.shim.control.working import NAME, make_app, worker_of
from tests.shim.own_queue import OwnQueue
from tests.waiting import PATIENCE, wait_for

from celery import Celery
from celery.worker import WorkController, state
from taskmq_celery.brokers import connection_url

pytestmark = pytest.mark.integration
PONG = {NAME: {"ok": "pong"}}


@pytest.fixture(autouse=True)
def nothing_left_unclosed() -> None:
    """What other tests have left is collected here: a test of this file would fail for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def asked(app: Any, question: str) -> Any:
    """What the worker answers, asked until it does: on a busy machine it may not listen yet."""
    return wait_for(lambda: getattr(app.control.inspect([NAME], timeout=2.0), question)())


def ping(app: Any) -> Any:
    return asked(app, "ping")


def test_processes_grow_and_the_worker_stops_when_told(program: Any, redis_url: str) -> None:
    program.environment["CELERY_BROKER_URL"] = redis_url
    worker = program.ready_worker("-P", "prefork", "-c", "1", "-n", NAME)
    app = Celery(broker=redis_url)
    options = {"destination": [NAME], "reply": True, "timeout": PATIENCE}
    stats = asked(app, "stats")[NAME]
    assert stats["pid"] == worker.process.pid
    assert len(stats["pool"]["processes"]) == 1
    assert worker.process.pid not in stats["pool"]["processes"]
    assert app.control.pool_grow(2, **options) == [{NAME: {"ok": "pool will grow"}}]
    assert app.control.pool_shrink(1, **options) == [{NAME: {"ok": "pool will shrink"}}]
    stats = asked(app, "stats")[NAME]
    assert stats["pool"]["max-concurrency"] == 2
    (refused,) = app.control.pool_shrink(2, **options)
    assert "at least 1 slot" in refused[NAME]["error"]
    app.control.shutdown()
    assert worker.exit_code() == os.EX_OK
    assert "Got shutdown from remote" in worker.output
    app.close()


def test_memory() -> None:
    app = make_app("memory://")
    with worker_of(app):
        assert ping(app) == PONG
    app.close()


def test_rabbitmq(rabbitmq_url: str, tmp_path: Path) -> None:
    app = make_app(f"{rabbitmq_url}?state=sqlite:///{tmp_path}/jobs.db")
    with worker_of(app):
        assert ping(app) == PONG
    app.close()


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("amqp://host//?state=sqlite:////jobs.db&heartbeat=5", "amqp://host//?heartbeat=5"),
        ("redis://host/0?lease=3", "redis://host/0"),
        ("sentinel://a:1?lease=3;sentinel://b:2/0", "sentinel://a:1;sentinel://b:2/0"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
        (["redis://a?lease=3", "redis://b"], ["redis://a", "redis://b"]),
        (None, None),
    ],
)
def test_what_kombu_is_told_of_a_url(url: Any, kept: Any) -> None:
    assert connection_url(url) == kept


def test_a_store_that_nobody_broadcasts_through(tmp_path: Path) -> None:
    app = make_app(f"sqlite:///{tmp_path}/jobs.db")
    with worker_of(app):
        with pytest.raises(NotImplementedError, match=r"^remote control needs .* sqlite:// has"):
            app.control.inspect().ping()
        waiting = app.tasks["add"].apply_async((1, 2), countdown=3600)
        assert app.control.revoke(waiting.id, reply=True) is None
        assert waiting.state == "REVOKED"
    app.close()


def test_a_worker_that_is_not_to_listen(redis_url: str) -> None:
    app = make_app(redis_url, worker_enable_remote_control=False)
    with worker_of(app):
        assert app.control.inspect([NAME], timeout=0.3).ping() is None
    app.close()


def test_the_pool_of_one_app_is_not_closed_with_another(redis_url: str) -> None:
    app, other = make_app(redis_url), make_app(redis_url)
    with worker_of(app):
        assert ping(other) == PONG
        other.close()
        assert ping(app) == PONG
    app.close()


def test_a_broker_that_comes_back(
    start_service: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    for name in ("consumer", "connection"):
        heard = logging.getLogger(f"celery.worker.consumer.{name}")
        monkeypatch.setattr(heard, "handle", lambda record: lines.append(record.getMessage()))
    redis = start_service(services.Redis, {"appendonly": "yes"})
    app = make_app(redis.url)
    with worker_of(app, loglevel="INFO"):
        assert ping(app) == PONG
        redis.restart()
        asking = make_app(redis.url)  # with connections of its own
        answers = (asking.control.inspect([NAME], timeout=0.5).ping() for _ in range(40))
        assert any(answer == PONG for answer in answers)
        asking.close()
        assert lines[0].startswith("consumer: Connection to broker lost.")
        assert lines[-1].startswith("Connected to redis://")
    app.close()


def test_a_consumer_step_goes_on_when_the_broker_comes_back(
    start_service: Callable[..., Any],
) -> None:
    own = OwnQueue()

    def publish(body: Any) -> None:
        with make_app(redis.url) as sending:
            own.publish(sending, body)

    redis = start_service(services.Redis, {"appendonly": "yes"})
    app = make_app(redis.url)
    app.steps["consumer"].add(own.step)
    with worker_of(app):
        publish(["before"])
        assert own.got.get(timeout=PATIENCE) == ["before"]
        redis.restart()
        publish(["after"])
        assert own.got.get(timeout=PATIENCE) == ["after"]
    app.close()


def test_a_broker_is_tried_again_as_the_settings_say(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kombu.utils.functional.sleep", lambda seconds: None)
    app = make_app(f"redis://127.0.0.1:{services.free_port()}/0")
    consumer = WorkController(app=app, pool="solo").consumer
    assert consumer is not None
    app.conf.broker_connection_retry_on_startup = False
    app.conf.broker_connection_max_retries = 1
    errors = consumer.connection_errors
    with pytest.raises(errors):
        consumer.connect()  # the first time
    assert "Trying again" not in caplog.text
    with pytest.raises(OperationalError):
        consumer.connect()
    assert "consumer: Cannot connect to redis://" in caplog.text
    assert "Trying again in 2.00 seconds... (1/1)" in caplog.text
    caplog.clear()
    app.conf.broker_connection_retry = False
    with pytest.raises(errors):
        consumer.connect()
    assert "Trying again" not in caplog.text


def test_what_runs_is_ended_with_its_connection_if_it_is_given_out_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Celery("t", broker="memory://", set_as_current=False)
    consumer = WorkController(app=app, pool="solo").consumer
    assert consumer is not None
    ended: list[str] = []

    class Running:
        acknowledged = False

        def __init__(self, id: str, acks_late: bool) -> None:
            self.id, self.task = id, SimpleNamespace(acks_late=acks_late)

        def cancel(self, pool: Any, emit_retry: bool = True) -> None:
            ended.append(f"{self.id} {emit_retry}")
            if self.id == "broken":
                raise OSError("gone")

    late, early, broken = Running("late", True), Running("early", False), Running("broken", True)
    done = Running("done", True)
    lost = ConnectionResetError("gone")
    try:
        state.active_requests.update([late, early, broken, done])
        state.successful_requests.add("done")
        with pytest.warns(PendingDeprecationWarning, match="run twice"):
            consumer.on_connection_error_after_connected(lost)
        assert ended == []
        app.conf.worker_cancel_long_running_tasks_on_connection_loss = True
        consumer.on_connection_error_after_connected(lost)
        assert sorted(ended) == ["broken True", "done True", "late True"]
        ended.clear()
        state.active_requests.discard(broken)
        consumer.cancel_active_requests()
        assert sorted(ended) == ["early True", "late False"]
    finally:
        state.reset_state()
    assert f"Trying to re-establish the connection... ({lost!r})" in caplog.text
