"""When a worker listens to orders: brokers, pools, settings, and a broker that goes away."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import services
from tests.shim.control.working import NAME, make_app, worker_of
from tests.waiting import PATIENCE

from celery import Celery
from taskmq_celery.brokers import connection_url

pytestmark = pytest.mark.integration
PONG = {NAME: {"ok": "pong"}}


def ping(app: Any) -> Any:
    return app.control.inspect([NAME], timeout=PATIENCE).ping()


def test_processes_grow_and_the_worker_stops_when_told(program: Any, redis_url: str) -> None:
    program.environment["CELERY_BROKER_URL"] = redis_url
    worker = program.ready_worker("-P", "prefork", "-c", "1", "-n", NAME)
    app = Celery(broker=redis_url)
    options = {"destination": [NAME], "reply": True, "timeout": PATIENCE}
    stats = app.control.inspect([NAME], timeout=PATIENCE).stats()[NAME]
    assert stats["pid"] == worker.process.pid
    assert len(stats["pool"]["processes"]) == 1
    assert worker.process.pid not in stats["pool"]["processes"]
    assert app.control.pool_grow(2, **options) == [{NAME: {"ok": "pool will grow"}}]
    assert app.control.pool_shrink(1, **options) == [{NAME: {"ok": "pool will shrink"}}]
    stats = app.control.inspect([NAME], timeout=PATIENCE).stats()[NAME]
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
