"""Result backends: what is stored, by whom, and who reads it."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from celery import states
from celery.app import backends
from celery.app.task import Context
from celery.backends.base import (
    COMPRESSED_PAYLOAD_MAGIC,
    BaseBackend,
    BaseDictBackend,
    DisabledBackend,
    KeyValueStoreBackend,
)
from celery.backends.cache import CacheBackend
from celery.backends.filesystem import FilesystemBackend
from celery.backends.native import NativeBackend
from celery.backends.rpc import RPCBackend
from celery.exceptions import (
    BackendStoreError,
    ImproperlyConfigured,
    SecurityError,
    TaskRevokedError,
    TimeoutError,
)
from taskmq_celery.worker import EngineWorker, WorkerPlan

MakeApp = Callable[..., Any]


class KeptInMemory(KeyValueStoreBackend):
    """As third parties write them."""

    supports_result_compression = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.kept: dict[Any, Any] = {}
        self.calls: list[str] = []
        super().__init__(*args, **kwargs)

    def get(self, key: Any) -> Any:
        self.calls.append("get")
        return self.kept.get(key)

    def set(self, key: Any, value: Any) -> None:
        self.calls.append("set")
        self.kept[key] = value

    def mget(self, keys: Any) -> Any:
        return [self.kept.get(key) for key in keys]

    def delete(self, key: Any) -> None:
        self.kept.pop(key, None)

    def record(self, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kept[self.get_key_for_task(task_id)])
        return found


class Broken(BaseDictBackend):
    """Its server is away."""

    def _store_result(self, *args: Any, **kwargs: Any) -> None:
        raise ConnectionError("away")

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        return {"status": states.PENDING, "result": None}


class Silent:
    """Hears what a worker tells."""

    wants_received = False

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


class Odd(Exception):
    """With arguments that a constructor has to get."""

    def __init__(self, code: int, *, why: str = "") -> None:
        super().__init__(code)
        self.code = code


@pytest.fixture
def app(make_app: MakeApp) -> Any:
    return make_app(backend=KeptInMemory)


# -- from setting to class -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "kind", "url"),
    [
        ("rpc://", RPCBackend, "rpc://"),
        ("cache+memory://", CacheBackend, "memory://"),
        ("file:///srv/results", FilesystemBackend, "file:///srv/results"),
        ("disabled", DisabledBackend, None),
        (None, DisabledBackend, None),
    ],
)
def test_a_name_or_url_leads_to_a_class(app: Any, spec: Any, kind: Any, url: Any) -> None:
    assert backends.by_url(spec, app.loader) == (kind, url)


def test_an_own_class_is_named_by_its_path_alone_or_before_a_url(app: Any) -> None:
    path = "celery.backends.cache:CacheBackend"
    assert backends.by_name(path, app.loader) is CacheBackend
    assert backends.by_url(f"{path.replace(':', '.')}+memory://", app.loader) == (
        CacheBackend,
        "memory://",
    )
    assert backends.by_name(KeptInMemory, app.loader) is KeptInMemory


def test_what_is_no_backend_is_said_so(make_app: MakeApp) -> None:
    app = make_app()
    with pytest.raises(ImportError):
        backends.by_name("no_such_module", app.loader)
    with pytest.raises(ImproperlyConfigured, match="is a Python module"):
        backends.by_name(os, app.loader)
    with pytest.raises(ImproperlyConfigured, match="'riak://host' is not there"):
        _ = make_app(backend="riak://host").backend


@pytest.mark.skipif(find_spec("pymongo") is not None, reason="pymongo is installed")
def test_a_driver_that_is_missing_is_said_so(make_app: MakeApp) -> None:
    with pytest.raises(ImproperlyConfigured, match="install the pymongo library"):
        _ = make_app(backend="mongodb://localhost/results").backend


def test_the_engines_own_urls_mean_its_records(make_app: MakeApp) -> None:
    for url in ("memory://", "sqlite:///jobs.db", "postgresql://host/db"):
        assert type(make_app(backend=url).backend) is NativeBackend


def test_a_backend_is_of_its_thread_and_one_that_is_assigned_of_all(app: Any) -> None:
    first = app.backend
    assert app.backend is first
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(app.backend))
    thread.start()
    thread.join()
    assert seen[0] is not first
    app.backend = first
    thread = threading.Thread(target=lambda: seen.append(app.backend))
    thread.start()
    thread.join()
    assert seen[1] is first


def test_passwords_are_not_shown(app: Any) -> None:
    backend = BaseBackend(app, url="scheme://me:secret@host/1")
    assert "secret" not in backend.as_uri()
    assert backend.as_uri(include_password=True) == "scheme://me:secret@host/1"


# -- what is stored --------------------------------------------------------------------------


def test_records_are_celerys(make_app: MakeApp) -> None:
    app = make_app(backend=KeptInMemory, result_extended=True)
    backend = app.backend
    request = Context(
        id="t1",
        task="proj.f",
        args=(1,),
        kwargs={"a": 2},
        hostname="w@box",
        retries=2,
        group="g",
        parent_id="p",
        delivery_info={"routing_key": "q"},
    )
    request.children.append(app.AsyncResult("c1"))
    backend.store_result("t1", 3, states.SUCCESS, request=request)
    record = backend.record("t1")
    assert record.pop("date_done")
    assert record == {
        "status": "SUCCESS",
        "result": 3,
        "traceback": None,
        "children": [[["c1", None], None]],
        "group_id": "g",
        "parent_id": "p",
        "name": "proj.f",
        "args": [1],
        "kwargs": {"a": 2},
        "worker": "w@box",
        "retries": 2,
        "queue": "q",
        "task_id": "t1",
    }
    result = app.AsyncResult("t1")
    assert (result.name, result.args, result.worker, result.queue) == ("proj.f", [1], "w@box", "q")
    assert [child.id for child in result.children] == ["c1"]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (
            lambda b: b.mark_as_failure("t", ValueError("a", object), traceback="tb"),
            {
                "status": "FAILURE",
                "traceback": "tb",
                "result": {
                    "exc_type": "ValueError",
                    "exc_message": ["a", "<class 'object'>"],
                    "exc_module": "builtins",
                },
            },
        ),
        (
            lambda b: b.mark_as_revoked("t", "terminated"),
            {
                "status": "REVOKED",
                "result": {
                    "exc_type": "TaskRevokedError",
                    "exc_message": ["terminated"],
                    "exc_module": "celery.exceptions",
                },
            },
        ),
        (
            lambda b: b.store_result("t", {"done": 1}, "PROGRESS"),
            {"status": "PROGRESS", "result": {"done": 1}, "date_done": None},
        ),
        (lambda b: b.mark_as_started("t", pid=7), {"status": "STARTED", "result": {"pid": 7}}),
    ],
)
def test_every_state_is_stored_as_celery_stores_it(
    app: Any, write: Callable[[Any], Any], expected: dict[str, Any]
) -> None:
    write(app.backend)
    record = app.backend.record("t")
    assert {name: record[name] for name in expected} == expected


def test_a_success_is_final(app: Any) -> None:
    app.backend.mark_as_done("t", 1)
    app.backend.mark_as_failure("t", ValueError("late"))
    assert app.backend.get_task_meta("t", cache=False)["result"] == 1


def test_the_first_run_of_a_task_is_written_without_a_look(app: Any) -> None:
    request = Context(id="t", delivery_info={"redelivered": False})
    app.backend.mark_as_done("t", 1, request)
    assert app.backend.calls == ["set"]
    request = Context(id="t", delivery_info={"redelivered": True})
    app.backend.mark_as_done("t", 2, request)
    assert app.backend.calls == ["set", "get"]
    assert app.backend.record("t")["result"] == 1


def test_keys_have_the_configured_prefix(make_app: MakeApp) -> None:
    for given, prefix in (("mine", b"mine_"), ("mine:", b"mine:")):
        options = {"global_keyprefix": given}
        backend = make_app(backend=KeptInMemory, result_backend_transport_options=options).backend
        assert backend.get_key_for_task("t") == prefix + b"celery-task-meta-t"
        assert backend.get_key_for_group("g") == prefix + b"celery-taskset-meta-g"


@pytest.mark.parametrize("serializer", ["json", "pickle"])
def test_what_is_compressed_and_what_is_not_are_both_read(
    make_app: MakeApp, serializer: str
) -> None:
    settings = {"result_serializer": serializer, "accept_content": [serializer]}
    plain = make_app(backend=KeptInMemory, **settings).backend
    packed = make_app(backend=KeptInMemory, result_compression="gzip", **settings).backend
    plain.kept = packed.kept  # two programs, one store
    for task_id, writer in (("a", plain), ("b", packed)):
        writer.mark_as_done(task_id, ["value"] * 100)
        for reader in (plain, packed):
            assert reader.get_task_meta(task_id, cache=False)["result"] == ["value"] * 100
    assert packed.kept[packed.get_key_for_task("b")].startswith(COMPRESSED_PAYLOAD_MAGIC)


def test_a_pickle_is_not_read_unless_it_is_accepted(make_app: MakeApp) -> None:
    writer = make_app(
        backend=KeptInMemory, result_serializer="pickle", accept_content=["pickle"]
    ).backend
    writer.mark_as_done("t", 1)
    reader = make_app(backend=KeptInMemory, result_serializer="pickle").backend
    reader.kept = writer.kept
    with pytest.raises(Exception, match="Refusing to deserialize"):
        reader.get_result("t")


# -- exceptions ------------------------------------------------------------------------------


def test_an_exception_comes_back_as_its_own_class(app: Any) -> None:
    app.backend.mark_as_failure("t", KeyError("k"))
    assert repr(app.backend.get_result("t")) == "KeyError('k')"
    result = app.AsyncResult("t")
    with pytest.raises(KeyError):
        result.get(timeout=1)


@pytest.mark.parametrize(
    "stored",
    [
        {"exc_module": "os", "exc_type": "system", "exc_message": ["touch {path}"]},
        {"exc_module": "builtins", "exc_type": "object", "exc_message": []},
        {"exc_module": "pathlib", "exc_type": "Path.touch", "exc_message": ["{path}"]},
        {"exc_module": "builtins", "exc_type": "eval", "exc_message": ["open('{path}', 'w')"]},
    ],
)
def test_a_poisoned_exception_is_never_called(
    app: Any, stored: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "touched"
    stored["exc_message"] = [each.format(path=path) for each in stored["exc_message"]]
    record = {"status": "FAILURE", "result": stored, "traceback": None, "task_id": "t"}
    app.backend.kept[app.backend.get_key_for_task("t")] = json.dumps(record)
    with pytest.raises(SecurityError, match="Expected an exception class"):
        app.AsyncResult("t").get(timeout=1)
    assert not path.exists()


def test_a_stored_exception_imports_nothing(app: Any) -> None:
    made = app.backend.exception_to_python(
        {"exc_module": "antigravity", "exc_type": "Flying", "exc_message": ["high"]}
    )
    assert (type(made).__name__, str(made)) == ("Flying", "high")
    assert "antigravity" not in sys.modules


def test_what_no_constructor_takes_is_still_an_exception(app: Any) -> None:
    made = app.backend.exception_to_python(
        {"exc_module": "json", "exc_type": "JSONDecodeError", "exc_message": ["one argument"]}
    )
    assert type(made) is Exception
    assert "one argument" in str(made)


def test_an_exception_that_cannot_be_pickled_is_stored_as_its_nearest(make_app: MakeApp) -> None:
    backend = make_app(
        backend=KeptInMemory, result_serializer="pickle", accept_content=["pickle"]
    ).backend

    class Local(KeyError):
        pass

    backend.mark_as_failure("t", Local("k"))
    assert type(backend.get_result("t")) is KeyError

    class Alone(Exception):
        pass

    backend.mark_as_failure("u", Alone("a"))
    made = backend.get_result("u")
    assert (type(made).__name__, made.args) == ("Alone", ("a",))


# -- written by workers ----------------------------------------------------------------------


def test_a_worker_writes_before_the_engine_says_that_it_is_over(app: Any, work: Any) -> None:
    backend = app.backend  # the worker of `work` runs in this thread
    seen: list[Any] = []

    class Watched(KeptInMemory):
        def set(self, key: Any, value: Any) -> None:
            seen.append(json.loads(value)["status"])
            super().set(key, value)

    app.backend = Watched(app)

    @app.task(bind=True, track_started=True, max_retries=1, default_retry_delay=0)
    def flaky(self: Any) -> str:
        seen.append("body")
        if not self.request.retries:
            raise self.retry(exc=Odd(4))
        return "ok"

    result = flaky.delay()
    assert (result.state, result.exists()) == ("PENDING", True)
    work(app)
    assert seen == ["STARTED", "body", "RETRY", "STARTED", "body", "SUCCESS"]
    assert result.get(timeout=1) == "ok"
    assert backend is not app.backend


def test_a_failure_is_written_with_its_traceback_and_its_children(app: Any, work: Any) -> None:
    app.backend = app.backend

    @app.task
    def child() -> None:
        pass

    @app.task
    def fail() -> None:
        child.apply_async(task_id="child")
        raise Odd(4)

    result = fail.delay()
    work(app)
    record = app.backend.record(result.id)
    assert record["result"]["exc_message"] == [4]
    assert "Odd" in record["traceback"]
    assert record["children"] == [[["child", None], None]]
    with pytest.raises(Odd):
        result.get(timeout=1)


def test_ignored_results_are_not_written(app: Any, work: Any) -> None:
    app.backend = app.backend

    @app.task(ignore_result=True)
    def quiet(fails: bool) -> None:
        if fails:
            raise Odd(1)

    @app.task(ignore_result=True, store_errors_even_if_ignored=True)
    def loud() -> None:
        raise Odd(2)

    for each in (quiet.si(False), quiet.si(True)):
        each.apply_async()
    failed = loud.delay()
    work(app)
    assert list(app.backend.kept) == [app.backend.get_key_for_task(failed.id)]


def test_a_backend_that_is_away_costs_no_result(
    make_app: MakeApp, work: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(backend=Broken)
    runs: list[int] = []

    @app.task
    def add(x: int, y: int) -> int:
        runs.append(1)
        return x + y

    result = add.delay(1, 2)
    with caplog.at_level(logging.ERROR):
        work(app)
    assert "the result backend failed in mark_as_done" in caplog.text
    assert (result.get(timeout=1), result.state, len(runs)) == (3, "SUCCESS", 1)


def test_ends_that_no_run_tells_of_are_written_too(app: Any) -> None:
    app.backend = app.backend

    @app.task
    def never() -> None:
        raise AssertionError

    revoked = never.apply_async(countdown=60)
    revoked.revoke()
    assert app.backend.record(revoked.id)["status"] == "REVOKED"
    expired = never.apply_async(expires=-1)
    worker = EngineWorker(app, WorkerPlan("w@box", ["celery"], 1, pool="solo"), Silent())
    worker._worker.run_until_idle(10)
    assert app.backend.record(expired.id)["result"]["exc_message"] == ["expired"]
    for each in (revoked, expired):
        with pytest.raises(TaskRevokedError):
            each.get(timeout=1)


def test_eager_results_are_stored_if_asked_for(make_app: MakeApp) -> None:
    app = make_app(backend=KeptInMemory, task_always_eager=True, task_store_eager_result=True)

    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    done = add.delay(1, 2)
    assert app.AsyncResult(done.id).get(timeout=1) == 3


# -- read ------------------------------------------------------------------------------------


def test_a_record_of_another_program_is_waited_for(app: Any) -> None:
    result = app.AsyncResult("elsewhere")
    with pytest.raises(TimeoutError):
        result.get(timeout=0.01, interval=0.001)
    looks: list[int] = []

    def arrives() -> None:
        looks.append(1)
        if len(looks) == 3:
            app.backend.mark_as_done("elsewhere", "there")

    assert result.get(timeout=5, interval=0.001, on_interval=arrives) == "there"


def test_forgetting_takes_both_records(app: Any, work: Any) -> None:
    app.backend = app.backend

    @app.task
    def one() -> int:
        return 1

    result = one.delay()
    work(app)
    assert result.get(timeout=1) == 1
    result.forget()
    assert (result.state, result.exists(), app.backend.kept) == ("PENDING", False, {})


def test_callbacks_are_called_while_somebody_waits(make_app: MakeApp, work: Any) -> None:
    app = make_app()

    @app.task
    def one(n: int) -> int:
        return n

    called: list[Any] = []
    watched, awaited = one.delay(1), one.delay(2)
    watched.then(lambda result: called.append(result.get()))
    work(app)
    assert awaited.get(timeout=1) == 2
    assert called == [1]


def test_children_are_known_in_the_engines_own_store(make_app: MakeApp, work: Any) -> None:
    app = make_app()

    @app.task
    def child() -> None:
        pass

    @app.task
    def parent(fails: bool) -> None:
        child.delay()
        if fails:
            raise Odd(1)

    results = [parent.delay(False), parent.delay(True)]
    work(app)
    for result in results:
        again = app.AsyncResult(result.id)
        assert again.ready()
        assert [each.state for each in again.children] == ["SUCCESS"]
    assert app.AsyncResult(results[0].children[0].id).children == []
    with pytest.raises(Odd):
        list(results[1].collect())


def test_a_result_survives_pickling(app: Any) -> None:
    app.set_current()
    result = pickle.loads(  # noqa: S301  # made here
        pickle.dumps(app.AsyncResult("t", parent=app.AsyncResult("p")))
    )
    assert (result.id, result.parent.id) == ("t", "p")


def test_a_group_is_stored_as_ids_with_pickle_too(make_app: MakeApp) -> None:
    app = make_app(backend=KeptInMemory, result_serializer="pickle", accept_content=["pickle"])
    backend, saved = app.backend, app.GroupResult("g", [app.AsyncResult("a")])
    backend.save_group("g", saved)
    stored = backend.decode(backend.get(backend.get_key_for_group("g")))
    assert stored == {"result": saved.as_tuple()}
    assert backend.restore_group("g", cache=False) == saved


def test_groups_of_an_engines_own_store_are_saved(make_app: MakeApp) -> None:
    app = make_app()
    app.backend.save_group("g", app.AsyncResult("a"))
    restored = app.backend.restore_group("g", cache=False)
    assert restored == app.AsyncResult("a")
    app.backend.delete_group("g")
    assert app.backend.restore_group("g") is None


# -- trying again ----------------------------------------------------------------------------


def test_a_backend_is_asked_again_only_if_that_is_configured(make_app: MakeApp) -> None:
    class Flaky(KeptInMemory):
        left = 2

        def exception_safe_to_retry(self, exc: BaseException) -> bool:
            return isinstance(exc, ConnectionError)

        def set(self, key: Any, value: Any) -> None:
            if self.left:
                self.left -= 1
                raise ConnectionError("away")
            super().set(key, value)

        def _sleep(self, amount: float) -> None:
            self.calls.append("sleep")

    with pytest.raises(ConnectionError):
        make_app(backend=Flaky).backend.mark_as_done("t", 1)
    always = {"result_backend_always_retry": True}
    backend = make_app(backend=Flaky, **always).backend
    backend.mark_as_done("t", 1)
    assert backend.calls.count("sleep") == 2
    backend = make_app(backend=Flaky, result_backend_max_retries=1, **always).backend
    with pytest.raises(BackendStoreError) as raised:
        backend.mark_as_done("t", 1)
    assert (raised.value.task_id, raised.value.state) == ("t", "SUCCESS")


def test_a_setting_that_a_backend_cannot_honour_is_warned_of(make_app: MakeApp) -> None:
    with pytest.warns(UserWarning, match="does not support result_failure_expires"):
        _ = make_app(backend=KeptInMemory, result_failure_expires=5).backend
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = make_app(backend=KeptInMemory).backend


# -- files -----------------------------------------------------------------------------------


def test_results_in_files(make_app: MakeApp, work: Any, tmp_path: Path) -> None:
    app = make_app(backend=tmp_path.as_uri())

    @app.task
    def one() -> int:
        return 1

    result = one.delay()
    work(app)
    record = json.loads((tmp_path / f"celery-task-meta-{result.id}").read_bytes())
    assert (record["status"], record["result"]) == ("SUCCESS", 1)
    assert result.get(timeout=1) == 1
    assert [each.name for each in tmp_path.iterdir()] == [f"celery-task-meta-{result.id}"]


def test_old_files_are_deleted_and_others_are_left_alone(make_app: MakeApp, tmp_path: Path) -> None:
    backend = make_app(backend=tmp_path.as_uri(), result_expires=60).backend
    backend.mark_as_done("old", 1)
    backend.mark_as_done("new", 1)
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("celery-task-meta-old", "notes.txt"):
        os.utime(tmp_path / name, (1, 1))
    backend.cleanup()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["celery-task-meta-new", "notes.txt"]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("file:///no/such/folder", "work correctly"),
        (None, "You need to configure a path"),
    ],
)
def test_a_folder_that_cannot_be_used_is_said_so(app: Any, url: Any, text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=text):
        FilesystemBackend(url, app=app)
