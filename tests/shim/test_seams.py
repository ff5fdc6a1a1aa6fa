"""Where libraries and applications reach in: what they patch, subclass and read.

One test for each habit that was found in 35 libraries and 33 applications and that no other test
here has. (Tracers: ``test_trace_patched.py``. Producers: ``test_producer_patched.py``. Schedulers:
``beat/test_seams.py``. Steps: ``test_bootsteps.py``. Requests: ``test_requests.py``.)
"""

from __future__ import annotations

import importlib
import logging
import pickle
import shelve
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu.serialization
import pytest

from celery import Celery, Task, _state, states
from celery.app import backends
from celery.app.log import Logging, TaskFormatter
from celery.app.registry import TaskRegistry
from celery.backends.base import BaseDictBackend, DisabledBackend
from celery.backends.redis import RedisBackend
from celery.contrib.abortable import AbortableAsyncResult, AbortableTask
from celery.events import Event
from celery.events.state import State
from celery.result import AsyncResult, EagerResult
from celery.utils.log import LoggingProxy

pytestmark = pytest.mark.integration


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("seams", broker="memory://", backend="cache+memory://", set_as_current=False)
    yield made
    made.close()


# -- publishing ----------------------------------------------------------------------------------


def test_apply_async_of_the_class_may_be_replaced(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    original = Task.apply_async

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(self.name)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Task, "apply_async", watched)
    task = app.task(lambda: None, name="seen")
    for call in (task.delay, task.apply_async, task.s().delay, task.s().apply_async):
        call()
    assert seen == ["seen"] * 4


def test_send_task_of_the_class_may_be_replaced(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Celery, "send_task", lambda self, name, *args, **kwargs: (self, name))
    assert app.send_task("some.task") == (app, "some.task")


def test_tasks_are_found_in_the_registry_of_old(app: Celery) -> None:
    registry = importlib.import_module("celery.registry")
    task = app.task(lambda: None, name="known")
    before = _state.get_current_app()
    app.set_current()
    try:
        assert registry.tasks.get("known") is app.tasks["known"]
        assert registry.tasks.get("unknown") is None
        assert task.name in registry.tasks
        old: Any = importlib.import_module("celery.execute")
        assert old.send_task("some.task").id
        old = importlib.import_module("celery.messaging")
        with old.establish_connection() as connection:
            assert connection.as_uri().startswith("memory://")
        old = importlib.import_module("celery.log")
        assert old.get_default_logger("x").name == "x"
    finally:
        before.set_current()


def test_a_serializer_of_the_programs_own(app: Celery) -> None:
    kombu.serialization.register("own", repr, eval, content_type="application/x-own")
    try:
        app.conf.update(accept_content=["own", "json"], task_serializer="own")
        app.conf.task_always_eager = True
        assert app.task(lambda x: x, name="same").delay({1: (2, 3)}).get() == {1: (2, 3)}
        app.conf.task_always_eager = False
        assert app.tasks["same"].apply_async([(1, 2)], serializer="own").id
    finally:
        kombu.serialization.unregister("own")


# -- classes of the program's own ----------------------------------------------------------------


class OwnTask(Task):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return "own", super().__call__(*args, **kwargs)


class OwnRegistry(TaskRegistry):
    pass


class OwnLogging(Logging):
    pass


class OwnApp(Celery):
    task_cls = f"{__name__}:OwnTask"
    registry_cls = f"{__name__}:OwnRegistry"
    log_cls = f"{__name__}:OwnLogging"


def test_classes_named_by_an_app_class() -> None:
    with OwnApp("own", broker="memory://", set_as_current=False) as app:
        assert isinstance(app.tasks, OwnRegistry)
        assert isinstance(app.log, OwnLogging)
        task = app.task(lambda: 1, name="one")
        assert isinstance(app.tasks["one"], OwnTask)
        assert task.apply().get() == ("own", 1)


def test_the_task_class_may_be_assigned(app: Celery) -> None:
    app.Task = type("Assigned", (app.Task,), {"abstract": True, "mark": 7})
    assert app.task(lambda: None, name="later").mark == 7
    bound: Any = app.subclass_with_self(OwnTask, abstract=True, name="Bound", attribute="_app")
    assert bound.__name__ == "Bound"
    assert bound._app is app


def test_on_bound_hears_of_the_app(app: Celery) -> None:
    heard = []

    class Hearing(Task):
        @classmethod
        def on_bound(cls, app: Any) -> None:
            heard.append((cls.__name__, app.main))

    app.task(lambda: None, name="bound", base=Hearing)
    assert "bound" in app.tasks
    assert heard[-1][1] == "seams"


def test_unknown_options_of_a_task_are_attributes(app: Celery) -> None:
    task = app.task(lambda: None, name="odd", verbose_name="Odd", silo_mode=[1])
    assert (task.verbose_name, task.silo_mode) == ("Odd", [1])


# -- the request ---------------------------------------------------------------------------------


def test_a_request_takes_what_programs_put_on_it(app: Celery) -> None:
    seen: dict[str, Any] = {}

    @app.task(bind=True)  # type: ignore[untyped-decorator]  # as in Celery
    def look(self: Any) -> None:
        request = self.request
        seen.update(request.headers)
        request.update(put=1)
        request.trace = 2
        seen.update(put=request.put, trace=vars(request)["trace"], direct=request.called_directly)
        seen["eager"] = request.delivery_info["is_eager"]

    look.apply(headers={"own": "x"}, throw=True)
    assert seen == {"own": "x", "put": 1, "trace": 2, "direct": False, "eager": True}


# -- results -------------------------------------------------------------------------------------


def test_backends_may_be_added_by_name(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends.BACKEND_ALIASES, "mine", f"{__name__}:OwnBackend")
    assert backends.by_name("mine", app.loader) is OwnBackend


class OwnBackend(BaseDictBackend):
    """What django-celery-results overrides."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows: dict[str, Any] = {}

    def _store_result(  # type: ignore[override]  # as django-celery-results has it
        self,
        task_id: str,
        result: Any,
        state: Any,
        traceback: Any = None,
        request: Any = None,
        using: Any = None,
    ) -> Any:
        children = self.encode({"children": self.current_task_children(request)})
        self.rows[task_id] = (self.encode(result), state, traceback, children)
        return result

    def _get_task_meta_for(self, task_id: str) -> Any:
        if task_id not in self.rows:
            return {"task_id": task_id, "status": states.PENDING, "result": None}
        result, status, traceback, children = self.rows[task_id]
        decoded = {"task_id": task_id, "status": status, "result": self.decode(result)}
        meta = {**decoded, "traceback": traceback, **self.decode(children)}
        return self.meta_from_decoded(meta)

    def _forget(self, task_id: str) -> None:
        del self.rows[task_id]


def test_a_backend_that_keeps_rows(app: Celery) -> None:
    backend = OwnBackend(app)
    backend.store_result("ok", {"x": 1}, states.SUCCESS)
    backend.store_result("bad", KeyError("k"), states.FAILURE, traceback="tb")
    backend.store_result("sent", None, "SENT")
    assert app.AsyncResult("ok", backend=backend).get() == {"x": 1}
    assert isinstance(app.AsyncResult("bad", backend=backend).result, KeyError)
    assert app.AsyncResult("sent", backend=backend).state == "SENT"
    assert app.AsyncResult("never", backend=backend).state == states.PENDING
    app.AsyncResult("ok", backend=backend).forget()
    assert "ok" not in backend.rows
    assert app.conf.find_value_for_key("extended", "result") is False
    assert backend.expires == 86400


def test_the_parameters_of_a_redis_url_may_be_changed(app: Celery) -> None:
    class Changed(RedisBackend):
        def _params_from_url(self, url: str, defaults: Any) -> Any:
            return {**super()._params_from_url(url, defaults), "socket_timeout": 7}

    made = Changed(app=app, url="redis://localhost:1/3")
    assert made.connparams["socket_timeout"] == 7
    assert made.connparams["db"] == 3
    assert made.redis.__name__ == "redis"


def test_results_that_are_made_by_hand() -> None:
    rejected: Any = EagerResult(None, None, states.REJECTED)
    assert (rejected.state, rejected.ready()) == (states.REJECTED, True)

    class Known(EagerResult):
        """As celery-progress has it: asks what an AsyncResult would."""

        def ready(self) -> Any:
            return super(EagerResult, self).ready()

    known: Any = Known("id", 3, states.SUCCESS)
    known.backend = DisabledBackend
    assert known.result == 3


def test_results_go_through_pickle(app: Celery) -> None:
    before = _state.get_current_app()
    app.set_current()
    try:
        there = pickle.loads(pickle.dumps(AsyncResult("some-id", app=app)))  # noqa: S301  # ours
        assert there.id == "some-id"
        assert there.app is app
    finally:
        before.set_current()
    assert AsyncResult("some-id", app=app).__reduce_args__()[0] == "some-id"


def test_tasks_that_ask_whether_to_go_on(app: Celery) -> None:
    task = app.task(lambda self: self.is_aborted(), name="long", base=AbortableTask, bind=True)
    result = task.AsyncResult("x")
    assert isinstance(result, AbortableAsyncResult)
    result.abort()
    assert result.is_aborted()


# -- events --------------------------------------------------------------------------------------


class Counting(State):
    """As flower has it."""

    counted: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.counted = []

    def event(self, event: Any) -> Any:
        self.counted.append(event["type"])
        return super().event(event)


def task_events(state: State, count: int) -> None:
    for number in range(count):
        event = Event("task-received", uuid=f"id{number}", hostname="w", name="n", clock=number)
        state.event({**event, "local_received": 1.0, "timestamp": 1.0 + number})


def test_a_state_is_subclassed_limited_and_kept(tmp_path: Path) -> None:
    state = Counting(max_tasks_in_memory=2)
    task_events(state, 3)
    assert state.counted == ["task-received"] * 3
    assert list(state.tasks) == ["id1", "id2"]
    assert state.tasks.limit == 2
    with shelve.open(str(tmp_path / "db")) as db:  # noqa: S301  # ours
        db["events"] = state
    with shelve.open(str(tmp_path / "db")) as db:  # noqa: S301
        again = db["events"]
    assert list(again.tasks) == ["id1", "id2"]
    assert again.tasks["id1"].as_dict()["name"] == "n"
    with again._mutex:
        assert again.tasks["id2"].worker.hostname == "w"


# -- logs ----------------------------------------------------------------------------------------


def test_formats_and_proxies_that_programs_use(app: Celery) -> None:
    from celery.app.defaults import DEFAULT_TASK_LOG_FMT

    record = logging.LogRecord("x", logging.INFO, "f", 1, "hello", (), None)
    line = TaskFormatter(DEFAULT_TASK_LOG_FMT, use_color=False).format(record)
    assert line.endswith(" ???[???]: hello")
    assert LoggingProxy(logging.getLogger("x"), logging.INFO).isatty() is False


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("celery.app.trace", "celery.app.trace"),
        ("celery.worker.strategy", "celery.worker.strategy"),
        ("celery.beat", "celery.beat"),
        ("celery.utils.functional", None),
    ],
)
def test_loggers_have_the_names_of_their_modules(module: str, name: str | None) -> None:
    loaded = importlib.import_module(module)
    if name:
        assert loaded.logger.name == name


# -- modules that are named elsewhere, as in lists of hidden imports -------------------------------


@pytest.mark.parametrize(
    "module",
    [
        *("celery.app.amqp", "celery.app.control", "celery.app.events", "celery.app.log"),
        *("celery.apps.beat", "celery.apps.multi", "celery.apps.worker", "celery.backends.redis"),
        *("celery.bin.amqp", "celery.bin.control", "celery.bin.graph", "celery.bin.list"),
        *("celery.bin.logtool", "celery.bin.migrate", "celery.bin.multi", "celery.bin.purge"),
        *("celery.bin.shell", "celery.bin.upgrade", "celery.concurrency.prefork"),
        *("celery.concurrency.solo", "celery.concurrency.thread", "celery.events.state"),
        *("celery.fixups.django", "celery.loaders.app", "celery.utils.dispatch"),
        *("celery.utils.static", "celery.worker.components", "celery.worker.consumer"),
        *("celery.worker.control", "celery.worker.state", "celery.worker.strategy"),
    ],
)
def test_modules_are_where_they_were(module: str) -> None:
    assert importlib.import_module(module).__name__ == module


def test_what_is_patched_is_there() -> None:
    """Names that libraries replace by assignment."""
    for path in (
        *("celery.platforms:close_open_fds", "celery.utils.term:imgcat"),
        *("celery.concurrency.prefork:process_initializer", "celery.local:Proxy"),
        *("celery.concurrency.prefork:process_destructor", "celery.backends.database:retry"),
    ):
        module, _, name = path.partition(":")
        assert callable(getattr(importlib.import_module(module), name))
