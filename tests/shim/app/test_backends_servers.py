"""Results in Redis and in databases, as other programs find them there."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kombu.exceptions import ContentDisallowed
from redis import Redis
from tests.waiting import PATIENCE

from celery import chord, group, states
from celery.app.task import Context
from celery.backends.database import DatabaseBackend, _PlainData, retry, session_cleanup
from celery.backends.database.models import Task
from celery.backends.redis import RedisBackend
from celery.exceptions import BackendStoreError, TimeoutError

MakeApp = Callable[..., Any]


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def redis_app(make_app: MakeApp, redis_url: str) -> Any:
    return make_app(backend=redis_url)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/results.db"


@pytest.fixture
def database_app(make_app: MakeApp, database: str) -> Any:
    return make_app(backend=f"db+{database}")


def rows(database: str, statement: str) -> list[Any]:
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        found = list(connection.execute(sa.text(statement)))
    engine.dispose()
    return found


# -- redis -----------------------------------------------------------------------------------


def test_a_worker_writes_celerys_keys(redis_app: Any, work: Any, client: Any) -> None:
    @redis_app.task
    def add(x: int, y: int) -> int:
        return x + y

    result = add.delay(1, 2)
    work(redis_app)
    key = f"celery-task-meta-{result.id}"
    record = json.loads(client.get(key))
    assert record.pop("date_done")
    assert record == {
        "status": "SUCCESS",
        "result": 3,
        "traceback": None,
        "children": [],
        "task_id": result.id,
    }
    assert 0 < client.ttl(key) <= 24 * 3600
    assert isinstance(redis_app.backend, RedisBackend)
    assert (result.get(timeout=PATIENCE), result.state) == (3, "SUCCESS")


def test_a_record_costs_one_round_trip(redis_app: Any, client: Any) -> None:
    backend = redis_app.backend
    backend.get("warm")  # connected
    before = client.info("commandstats")
    request = Context(id="t", delivery_info={"redelivered": False})
    backend.mark_as_done("t", 1, request)
    after = client.info("commandstats")
    calls = {
        name: after.get(name, {"calls": 0})["calls"] - before.get(name, {"calls": 0})["calls"]
        for name in ("cmdstat_exec", "cmdstat_get", "cmdstat_publish", "cmdstat_set")
    }
    assert list(calls.values()) == [1, 0, 1, 1]


def test_a_record_of_another_program_wakes_who_waits(redis_app: Any, client: Any) -> None:
    result = redis_app.AsyncResult("elsewhere")
    record: dict[str, Any] = {"status": "SUCCESS", "result": "there", "traceback": None}
    payload = json.dumps({**record, "task_id": "elsewhere"})
    key = "celery-task-meta-elsewhere"
    listens = threading.Event()

    def write() -> None:
        listens.wait(PATIENCE)
        client.set(key, payload, ex=60)
        client.publish(key, payload)

    def on_interval() -> None:
        if client.pubsub_numsub(key)[0][1]:
            listens.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert result.get(timeout=PATIENCE, on_interval=on_interval) == "there"
    thread.join()
    # Whoever comes later reads it, and nothing is left subscribed.
    assert redis_app.AsyncResult("elsewhere").get(timeout=PATIENCE) == "there"
    assert not redis_app.backend.result_consumer.subscribed_to


def test_waiting_for_a_record_ends_in_time(redis_app: Any) -> None:
    with pytest.raises(TimeoutError):
        redis_app.AsyncResult("never").get(timeout=0.05)


def test_callbacks_come_while_anybody_waits(redis_app: Any, work: Any) -> None:
    @redis_app.task
    def one(n: int) -> int:
        return n

    called: list[Any] = []
    watched, awaited = one.delay(1), one.delay(2)
    watched.then(lambda result: called.append(result.result))
    work(redis_app)
    assert awaited.get(timeout=PATIENCE) == 2
    assert watched.get(timeout=PATIENCE) == 1
    assert called == [1]


def test_a_revoked_task_is_not_waited_for_in_vain(redis_app: Any, client: Any) -> None:
    """Also where a record is to come by subscription: nobody publishes one here."""
    result = redis_app.send_task("any", countdown=60)
    redis_app.AsyncResult("other").then(lambda _: None)
    result.revoke()
    client.delete(f"celery-task-meta-{result.id}")
    with pytest.raises(Exception, match="revoked"):
        redis_app.AsyncResult(result.id).get(timeout=PATIENCE)


def test_failures_are_kept_as_long_as_is_said(
    make_app: MakeApp, redis_url: str, client: Any
) -> None:
    app = make_app(backend=redis_url, result_expires=1000, result_failure_expires=10)
    app.backend.mark_as_failure("bad", ValueError())
    app.backend.mark_as_done("good", 1)
    assert client.ttl("celery-task-meta-bad") <= 10 < client.ttl("celery-task-meta-good")
    forever = make_app(backend=redis_url, result_expires=0).backend
    forever.mark_as_done("kept", 1)
    assert client.ttl("celery-task-meta-kept") == -1


def test_a_value_that_redis_does_not_take_is_refused_here(redis_app: Any) -> None:
    redis_app.backend._MAX_STR_VALUE_SIZE = 10
    with pytest.raises(BackendStoreError, match="too large"):
        redis_app.backend.set("k", "x" * 11)


def test_parts_of_a_chord_are_counted_once_and_the_body_is_sent_once(
    redis_app: Any, client: Any
) -> None:
    """Chords that a real Celery published, with this program among the workers."""
    sent: list[Any] = []

    @redis_app.task(name="body")
    def body(values: Any) -> None:
        """Never run here."""

    body.apply_async = lambda args=(), *rest, **options: sent.append(args[0])
    backend = redis_app.backend
    backend.set_chord_size("g", 3)

    def ends(index: int, value: Any) -> None:
        request = Context(id=f"t{index}", group="g", group_index=index, chord=body.s())
        backend.on_chord_part_return(request, states.SUCCESS, value)

    for index, value in ((2, "c"), (0, "a"), (0, "again"), (1, "b"), (1, "late")):
        ends(index, value)
    assert sent == [["a", "b", "c"]]
    assert sorted(client.keys("celery-taskset-meta-g*")) == [b"celery-taskset-meta-g.c"]


def test_a_chord_of_the_engine_is_not_counted_in_redis(
    redis_app: Any, work: Any, client: Any
) -> None:
    @redis_app.task
    def one(n: int) -> int:
        return n

    @redis_app.task
    def total(values: list[int]) -> int:
        return sum(values)

    result = chord([one.s(1), one.s(2)], total.s()).delay()
    work(redis_app)
    assert result.get(timeout=PATIENCE) == 3
    assert [child.state for child in result.parent.results] == ["SUCCESS", "SUCCESS"]
    assert not client.keys("celery-taskset-meta-*")
    assert len(client.keys("celery-task-meta-*")) == 3


def test_a_group_is_joined_as_it_ends(redis_app: Any, work: Any) -> None:
    @redis_app.task
    def one(n: int) -> int:
        if n == 3:
            raise ValueError(n)
        return n

    result = group(one.s(n) for n in (1, 2)).delay()
    mixed = group(one.s(n) for n in (1, 3)).delay()
    result.save()
    work(redis_app)
    assert result.join_native(timeout=PATIENCE) == [1, 2]
    assert redis_app.GroupResult.restore(result.id).get(timeout=PATIENCE) == [1, 2]
    with pytest.raises(ValueError, match="3"):
        mixed.get(timeout=PATIENCE)


def test_nobody_is_subscribed_to_a_result_that_is_known(
    redis_app: Any, work: Any, client: Any
) -> None:
    @redis_app.task
    def one(n: int) -> int:
        return n

    called: list[Any] = []
    waited = group(one.s(n) for n in (1, 2)).delay()
    told = group(one.s(n) for n in (3, 4)).delay()
    assert not client.pubsub_channels("celery-task-meta-*")  # nobody waits yet
    told.then(lambda result: called.append(result.get(timeout=PATIENCE)))
    assert len(client.pubsub_channels("celery-task-meta-*")) == 2
    work(redis_app)
    assert waited.get(timeout=PATIENCE) == [1, 2]
    assert told.get(timeout=PATIENCE) == [3, 4]
    assert called == [[3, 4]]
    assert not any(redis_app.backend._pending_results)
    assert not client.pubsub_channels("celery-task-meta-*")


def test_a_part_that_failed_fails_the_body(redis_app: Any) -> None:
    @redis_app.task(name="body")
    def body(values: Any) -> None:
        """Never run here."""

    backend = redis_app.backend
    backend.set_chord_size("g", 1)
    signature = body.s()
    signature.options["task_id"] = "body-id"
    request = Context(id="t", group="g", group_index=0, chord=signature)
    backend.on_chord_part_return(request, states.FAILURE, ValueError("bad"))
    meta = backend.get_task_meta("body-id")
    assert meta["status"] == "FAILURE"
    assert "Dependency t raised ValueError('bad')" in str(meta["result"])


# -- databases -------------------------------------------------------------------------------


def test_a_worker_writes_celerys_table(database_app: Any, database: str, work: Any) -> None:
    @database_app.task
    def add(x: int, y: int) -> int:
        return x + y

    result = add.delay(1, 2)
    work(database_app)
    found = rows(database, "SELECT task_id, status, result, traceback FROM celery_taskmeta")
    assert found == [(result.id, "SUCCESS", b"3", None)]
    assert (result.get(timeout=PATIENCE), result.children) == (3, [])
    result.forget()
    assert rows(database, "SELECT * FROM celery_taskmeta") == []


def test_what_is_known_of_the_call_is_kept(make_app: MakeApp, database: str, work: Any) -> None:
    app = make_app(backend=f"db+{database}", result_extended=True)

    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    result = app.AsyncResult(add.delay(1, y=2).id)
    work(app)
    assert (result.get(timeout=PATIENCE), result.args, result.kwargs) == (3, [1], {"y": 2})
    assert (result.name, result.queue, result.worker, result.retries) == (
        add.name,
        "celery",
        "w1@box",
        0,
    )


def test_pickles_of_old_celerys_are_read_as_far_as_they_are_data(
    database_app: Any, database: str
) -> None:
    backend = database_app.backend

    def store(task_id: str, value: Any, status: str = "SUCCESS") -> None:
        with session_cleanup(session := backend.ResultSession()):
            row: Any = Task(task_id)
            row.status, row.result = status, pickle.dumps(value)
            session.add(row)
            session.commit()

    failed = {"exc_type": "KeyError", "exc_message": ["k"], "exc_module": "builtins"}
    store("data", {"a": [1, 2.5, None, "é"]})
    store("failed", failed, "FAILURE")
    store("poison", _PlainData)
    assert backend.get_result("data") == {"a": [1, 2.5, None, "é"]}
    assert repr(backend.get_result("failed")) == "KeyError('k')"
    with pytest.raises(ContentDisallowed, match="_PlainData"):
        backend.get_result("poison")


def test_a_success_in_a_table_is_final(database_app: Any) -> None:
    database_app.backend.mark_as_done("t", 1)
    database_app.backend.mark_as_failure("t", ValueError("late"))
    assert database_app.backend.get_task_meta("t", cache=False)["result"] == 1


def test_old_rows_are_deleted(make_app: MakeApp, database: str) -> None:
    backend = make_app(backend=f"db+{database}", result_expires=60).backend
    for name in ("old", "new"):
        backend.mark_as_done(name, 1)
    with session_cleanup(session := backend.ResultSession()):
        session.execute(
            sa.text("UPDATE celery_taskmeta SET date_done = '2000-01-01' WHERE task_id = 'old'")
        )
        session.commit()
    backend.cleanup()
    assert [row[0] for row in rows(database, "SELECT task_id FROM celery_taskmeta")] == ["new"]


def test_columns_that_old_tables_lack_are_added(make_app: MakeApp, database: str) -> None:
    engine = sa.create_engine(database)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE TABLE celery_taskmeta (id INTEGER PRIMARY KEY, task_id VARCHAR(155) UNIQUE,"
                " status VARCHAR(50), result BLOB, date_done DATETIME, traceback TEXT)"
            )
        )
    engine.dispose()
    backend = make_app(backend=f"db+{database}").backend
    backend.mark_as_done("t", 1)
    assert backend.get_result("t") == 1


def test_a_database_is_asked_again(database_app: Any) -> None:
    assert isinstance(database_app.backend, DatabaseBackend)
    assert database_app.backend.always_retry is True
    calls: list[int] = []

    @retry
    def query() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise sa.exc.OperationalError("SELECT", {}, Exception("gone"))
        return "rows"

    assert (query(), len(calls)) == ("rows", 3)


def test_results_in_postgresql(make_app: MakeApp, postgres_url: str, work: Any) -> None:
    pytest.importorskip("psycopg")
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    app = make_app(backend=f"db+{url}", result_extended=True)

    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    result = add.delay(1, 2)
    work(app)
    app.backend.mark_as_failure(result.id, ValueError("late"))
    again = app.AsyncResult(result.id)
    assert (again.get(timeout=PATIENCE), again.state, again.args) == (3, "SUCCESS", [1, 2])
