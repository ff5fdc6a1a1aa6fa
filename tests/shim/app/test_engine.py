"""The bridge: one engine for each app, codecs, loaders, forks."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import math
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from kombu.exceptions import ContentDisallowed, OperationalError

from taskmq import ConfigError, TransportError
from taskmq.errors import TransportUnavailable
from taskmq.testing import TransportWrapper, worker_for
from taskmq_celery.codec import JsonCodec, KombuCodec
from taskmq_celery.config import broker_url, unused_settings
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit

MakeApp = Callable[..., Any]


def test_an_app_has_one_engine_and_workers_share_its_store(app: Any) -> None:
    engine = engine_for(app)
    assert engine_for(app) is engine
    worker = engine_for(app, concurrency=3)
    assert worker is not engine
    assert worker.transport is engine.transport
    assert (worker.config.concurrency, engine.config.default_queue) == (3, "celery")


def test_any_engine_worker_completes_the_app(app: Any) -> None:
    @app.task
    def add(x: int) -> int:
        return x + 1

    result = add.delay(1)
    late = app.send_task(f"{__name__}.late")
    with worker_for(engine_for(app)) as worker:

        @app.task
        def late_task() -> None: ...

        @app.task(name=f"{__name__}.late")
        def known_later() -> str:
            return "late"

        worker.run_until_idle()
    assert (result.get(timeout=1), late.get(timeout=1)) == (2, "late")


def test_a_changed_setting_keeps_what_is_in_memory(app: Any) -> None:
    result = app.send_task("any")
    app.conf.result_expires = 10
    assert engine_for(app).config.result_ttl == 10
    assert result.exists()


def test_two_threads_make_one_store(make_app: MakeApp) -> None:
    app = make_app()
    start = threading.Barrier(8)
    found: list[Any] = []

    def look() -> None:
        start.wait(10)
        found.append(engine_for(app).transport)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


FORKING = """
import os
from celery import Celery
app = Celery("t", broker="sqlite:///jobs.db", backend="rpc://")
app.send_task("from.parent", task_id="parent")
pid = os.fork()
if pid == 0:
    app.send_task("from.child", task_id="child")
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(*[app.AsyncResult(name).name for name in ("parent", "child")])
"""


def test_a_forked_child_opens_the_store_anew(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FORKING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert run.stdout.split() == ["from.parent", "from.child"]


def test_a_store_that_cannot_be_reached_is_an_operational_error(app: Any) -> None:
    class Broken(TransportWrapper):
        def enqueue(self, sealed: Any) -> Any:
            raise TransportUnavailable("database is locked")

    engine = engine_for(app)
    engine._transport = Broken(engine.transport)

    @app.task
    def f() -> None: ...

    with pytest.raises(f.OperationalError, match="database is locked") as raised:
        f.delay()
    assert isinstance(raised.value, OperationalError)
    assert isinstance(raised.value.__cause__, TransportError)


@pytest.mark.parametrize(
    ("url", "native"),
    [
        ("sqlite:////var/jobs.db", "sqlite:////var/jobs.db"),
        ("sqla+sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("memory://", "memory://"),
        ("memory", "memory://"),
        ("memory://;sqlite:///other.db", "memory://"),
        ("redis://", "redis://"),
        ("rediss://:pw@host/1?ssl_cert_reqs=CERT_NONE", "rediss://:pw@host/1?ssl_cert_reqs=none"),
        ("redis://host?virtual_host=2&health_check_interval=5", "redis://host?db=2"),
        ("redis+socket:///run/redis.sock?virtual_host=1", "unix:///run/redis.sock?db=1"),
        ("sqla+postgresql+psycopg2://u:p@db/jobs", "postgresql://u:p@db/jobs"),
        ("pyamqp://guest@mq//?state=memory://", "amqp://guest@mq//?state=memory://"),
        (
            ["amqp://one//?state=memory://", "pyamqp://two"],
            "amqp://one//;amqp://two?state=memory://",
        ),
    ],
)
def test_broker_urls(url: Any, native: str) -> None:
    assert broker_url(url) == native


def test_broker_options_complete_the_url() -> None:
    url = "sentinel://:pw@one:26379;sentinel://two:26380/1"
    native = broker_url(url, {"master_name": "shop", "sentinel_kwargs": {"password": "x"}})
    assert native == "redis+sentinel://:pw@one:26379,two:26380/shop/1?sentinel_password=x"
    native = broker_url("amqp://", {"state": "sqlite:///jobs.db"})
    assert native == "amqp://localhost?state=sqlite%3A%2F%2F%2Fjobs.db"


@pytest.mark.parametrize(
    ("results", "state"),
    [
        ("redis://host:6380/2", "redis://host:6380/2"),
        ("db+sqlite:////var/results.db", "sqlite:////var/results.db"),
        ("db+postgresql+psycopg2://u:p@db/results", "postgresql://u:p@db/results"),
        ("postgresql://db/jobs", "postgresql://db/jobs"),
    ],
)
def test_a_store_of_results_has_the_jobs_of_a_broker(results: str, state: str) -> None:
    native = broker_url("amqp://guest@mq//", {}, results)
    assert native == f"amqp://guest@mq//?{urlencode({'state': state})}"
    named = broker_url("amqp://mq", {"state": "sqlite:///jobs.db"}, results)
    assert named == "amqp://mq?state=sqlite%3A%2F%2F%2Fjobs.db"


@pytest.mark.parametrize(
    "results", [None, "rpc://", "cache+memory://", "memory://", "db+mysql://h/x", "db+sqlite://"]
)
def test_without_such_a_store_they_are_in_a_file_of_this_machine(
    results: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for _ in range(2):
        made = urlsplit(broker_url("amqp://user:pw@mq:5673/shop", {}, results))
    given = dict(parse_qsl(made.query))
    path = tmp_path / "taskmq" / "mq-5673-_shop.db"
    assert given["state"] == f"sqlite:///{path}"
    assert given["namespace"].startswith("taskmq-")  # the queues of a file are nobody else's
    (line,) = caplog.messages  # once
    assert f"jobs are kept in {path}" in line
    assert "pw" not in line


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sentinel://:pw@one:26379", "^one:26379: say which server"),
        ("sqs://", "is not supported yet"),
    ],
)
def test_other_brokers_are_refused(url: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        broker_url(url)


def test_settings_without_effect_are_listed_with_the_reason(make_app: MakeApp) -> None:
    app = make_app(
        broker_pool_limit=3,
        worker_prefetch_multiplier=4,  # its default
        task_time_limit=30,
        broker_transport_options={"lease": 5},
    )
    assert set(unused_settings(app.conf)) == {"broker_pool_limit", "task_time_limit"}
    app.conf.broker_transport_options = {"visibility_timeout": 60}
    assert "broker_transport_options" in unused_settings(app.conf)


def test_json_is_kombus() -> None:
    codec = JsonCodec()
    for value in ({"a": [1, "é😀", None, 1.5]}, {"__json_text__": "x"}, [{"__json_text__": 1}]):
        assert codec.decode(codec.encode(value)) == value
    assert codec.encode({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()
    assert codec.encode([math.nan]) == b'{"__json_text__":"[NaN]"}'


def test_a_serializer_that_is_not_accepted_is_not_read() -> None:
    written = KombuCodec("pickle", ("pickle",)).encode({1})
    assert KombuCodec("pickle", ("application/x-python-serialize",)).decode(written) == {1}
    with pytest.raises(ContentDisallowed, match="untrusted content of type pickle"):
        KombuCodec("pickle", ("json",)).decode(written)


def test_closing_and_using_again(make_app: MakeApp, tmp_path: Path) -> None:
    app = make_app(broker=f"sqlite:///{tmp_path}/jobs.db")
    result = app.send_task("any")
    app.close()
    assert app.AsyncResult(result.id).name == "any"


def test_importing_celery_loads_nothing_else() -> None:
    code = "import sys, celery; print(*[m for m in sys.modules if m.split('.')[0] in NAMES])"
    names = "NAMES = {'kombu', 'amqp', 'taskmq', 'billiard', 'click', 'msgspec'}\n"
    run = subprocess.run(
        [sys.executable, "-c", names + code], capture_output=True, text=True, timeout=30, check=True
    )
    assert run.stdout.split() == []


def test_making_an_app_does_not_load_the_engine() -> None:
    code = (
        "import sys\nfrom celery import Celery\napp = Celery('x')\n"
        "@app.task\ndef f(): ...\nprint('taskmq' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert run.stdout.strip() == "False"
