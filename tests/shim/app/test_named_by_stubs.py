"""Small things that Celery's modules and classes have, and its users may name."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import importlib
import pickle
import re
from decimal import Decimal
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest

from celery import Celery
from celery.app import AppPickler
from celery.app.defaults import NAMESPACES, OPTIONS, Option, flatten
from celery.app.utils import Settings
from celery.concurrency import get_implementation
from celery.events.state import Task as EventTask
from celery.events.state import heartbeat_expires
from celery.exceptions import ImproperlyConfigured
from celery.local import PromiseProxy, Proxy
from celery.utils import nodenames
from celery.utils.abstract import CallableTask
from celery.utils.collections import ChainMap
from celery.utils.functional import arity_greater, evaluate_promises, lazy
from celery.utils.text import dedent, simple_format

pytestmark = pytest.mark.unit


class Titled(Celery):
    """An app that is pickled with more than others."""

    title = ""

    def __init__(self, *args: Any, title: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = title

    def __reduce_keys__(self) -> dict[str, Any]:
        return {**super().__reduce_keys__(), "title": self.title}


@pytest.mark.parametrize(
    "module",
    ["celery.app.trace", "celery.beat", "celery.canvas", "celery.states", "celery.worker.control"],
)
def test_a_module_exports_what_celery_does(module: str) -> None:
    given: dict[str, Any] = {}
    exec(f"from {module} import *", given)  # noqa: S102  # as a program does
    assert set(given) - {"__builtins__"} == set(importlib.import_module(module).__all__)


def test_an_app_is_pickled_with_what_it_was_made_of() -> None:
    app = Titled("proj", title="chief", set_as_current=False, task_queue_max_priority=7)
    app.conf.result_expires = 5
    again = pickle.loads(pickle.dumps(app))  # noqa: S301  # made here
    assert (type(again), again.main, again.title) == (Titled, "proj", "chief")
    assert (again.conf.result_expires, again.conf.task_queue_max_priority) == (5, 7)


def test_an_app_has_the_class_of_its_registry() -> None:
    assert Celery.registry_cls == "celery.app.registry:TaskRegistry"
    app = Celery("proj", set_as_current=False)
    assert type(app._tasks) is app.registry_cls


def test_an_app_is_made_again_as_old_pickles_say() -> None:
    app = Celery("proj", set_as_current=False, config_source={"result_expires": 9})
    make, (kind, pickler, *args) = app.__reduce_v1__()
    again = make(kind, pickler, *args)
    assert (again.main, again.conf.result_expires) == ("proj", 9)

    class Told(AppPickler):
        def prepare(self, app: Celery, **kwargs: Any) -> None:
            app.conf.update(result_expires=kwargs["changes"].get("result_expires", 1))

    assert Told()(kind, *args).conf.result_expires == 1


def test_a_subclass_prepares_the_configuration_and_checks_arguments() -> None:
    class Prepared(Celery):
        def prepare_config(self, c: Any) -> Any:
            return {**c, "result_expires": c["result_expires"] * 2}

        def type_checker(self, fun: Any, bound: bool = False) -> Any:
            return staticmethod(lambda *args, **kwargs: checked.append(args))

    checked: list[Any] = []
    app = Prepared("proj", set_as_current=False, config_source={"result_expires": 4})
    assert app.conf.result_expires == 8

    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    add.__header__(1)
    assert checked == [(1,)]


def test_the_check_of_arguments_can_be_called() -> None:
    check = Celery("proj", set_as_current=False).type_checker(lambda x: x)
    check(1)
    with pytest.raises(TypeError):
        check()


def test_settings_are_made_of_mappings_and_names() -> None:
    settings = Settings({"result_expires": 1}, {"result_expires": 2, "timezone": "UTC"}, extra=3)
    assert (settings.result_expires, settings.timezone, settings["extra"]) == (1, "UTC", 3)
    assert Settings(deprecated_settings={"CELERYD_POOL"}).changes["deprecated_settings"] == {
        "CELERYD_POOL"
    }
    assert Settings({"TIME_ZONE": "Europe/Oslo"}).timezone == "Europe/Oslo"


def test_options_of_sections_by_the_name_of_their_setting() -> None:
    assert dict(flatten(NAMESPACES)) == OPTIONS
    one = Option(1, "int", alt="b")
    assert (one.default, one.type, one.alt, one.old) == (1, "int", "b", set())
    told = flatten({"a": {"b": one}}, root="r_", keyfilter=lambda *said: [said])
    assert list(told) == [("r_a_", "b", one)]


def test_a_promise_that_is_kept_lets_go_of_what_it_was_made_from() -> None:
    made_from = object()
    promise: Any = PromiseProxy(lambda thing: 5, (made_from,), name="five")
    assert (promise + 0, promise.__name__) == (5, "five")
    with pytest.raises(AttributeError):
        object.__getattribute__(promise, "_Proxy__args")


def test_a_proxy_has_what_numbers_had() -> None:
    seven: Any = Proxy(lambda: 7)
    assert (seven.__hex__(), seven.__oct__()) == ("0x7", "0o7")


def test_a_class_can_be_registered_as_a_task() -> None:
    @CallableTask.register
    class Odd:
        pass

    assert issubclass(Odd, CallableTask)
    assert not issubclass(int, CallableTask)


def test_layers_from_keys() -> None:
    made = ChainMap.fromkeys(["a", "b"], 1)
    assert dict(made) == {"a": 1, "b": 1}


def test_how_many_arguments_a_function_takes() -> None:
    assert arity_greater(lambda x, y: None, 1)
    assert not arity_greater(lambda x: None, 1)
    assert arity_greater(lambda *x: None, 5)
    assert list(evaluate_promises([1, lazy(lambda: 2)])) == [1, 2]


def test_formats_with_a_pattern_of_their_own() -> None:
    assert simple_format("%a and %%", {"a": lambda: "x"}) == "x and %"
    braces = re.compile(r"\{(\w+)\}")
    assert simple_format("{name}!", {"name": "b"}, braces) == "b!"
    with pytest.raises(ValueError, match="Unknown format %q"):
        simple_format("%q", {})
    assert dedent("    a\r\n  b", sep=" ") == "a   b"


def test_values_on_a_command_line_with_their_types() -> None:
    parse = Celery("proj", set_as_current=False).loader.cmdline_config_parser
    assert parse(["worker.concurrency=(int)3", "broker.url=(string)x", "result.expires=5"]) == {
        "worker_concurrency": 3,
        "broker_url": "x",
        "result_expires": 5,
    }
    assert parse(['accept.content=["json"]'], override_types={"list": "json"}) == {
        "accept_content": ["json"]
    }
    twice = {"twice": lambda text: 2 * int(text)}
    assert parse(["worker.concurrency=(twice)3"], extra_types=twice) == {"worker_concurrency": 6}
    braces = re.compile(r"\{(\w+)\}")
    assert parse(["worker.concurrency={int}3"], re_type=braces) == {"worker_concurrency": 3}
    with pytest.raises(ImproperlyConfigured, match="no type 'nosuch'"):
        parse(["worker.concurrency=(nosuch)3"])


def test_what_was_set_can_be_replaced() -> None:
    app = Celery("proj", set_as_current=False, result_expires=3)
    app.conf.changes = {"task_queue_max_priority": 1, "deprecated_settings": set()}
    assert app.conf.result_expires != 3
    assert app.conf.changes == {"task_queue_max_priority": 1, "deprecated_settings": set()}
    app.conf.enable_utc = False
    assert not app.amqp.utc
    app.amqp.utc = True  # a program may say so itself
    assert app.amqp.utc


def test_a_result_can_be_made_to_fail_for_those_who_wait() -> None:
    app = Celery("proj", broker="memory://", backend="rpc://", set_as_current=False)
    result = app.AsyncResult("t")
    seen: list[Any] = []
    result.then(lambda _: None, on_error=seen.append)
    error = ValueError("no")
    result.throw(error, propagate=False)
    assert seen == [error]
    app.close()


def test_the_exchange_of_single_workers() -> None:
    queue = nodenames.worker_direct("w@box")
    assert (queue.name, queue.exchange) == ("w@box.dq2", nodenames.WORKER_DIRECT_EXCHANGE)


@pytest.mark.parametrize("kind", ["eventlet", "gevent", "threads"])
def test_a_pool_of_threads_does_a_programs_calls(kind: str) -> None:
    pool = get_implementation(kind)(2)
    pool.start()
    got: list[int] = []
    pool.apply_async(lambda x: x + 1, (1,), callback=got.append).wait(10)
    assert got == [2]
    pool.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        pool.apply_async(lambda x: x + 1, (1,))


def test_relatives_and_promises_can_be_set() -> None:
    task, other = EventTask(uuid="a", parent_id="b"), EventTask(uuid="b")
    assert task.parent is None
    task.parent = task.root = other
    assert (task.parent, task.root) == (other, other)
    app = Celery("proj", broker="memory://", backend="rpc://", set_as_current=False)
    result = app.AsyncResult("t")
    made = result.on_ready
    assert result.on_ready is made
    result.on_ready = None
    assert result.on_ready is not made
    app.close()


def test_when_a_worker_is_given_up() -> None:
    assert heartbeat_expires(Decimal("10.0"), Decimal(2), 200) == 14.0
    assert heartbeat_expires(10, 2, 200) == 14.0


def test_a_green_pool_tells_of_what_takes_too_long() -> None:
    pool = get_implementation("gevent")(1)
    pool.start()
    told: SimpleQueue[tuple[bool, float]] = SimpleQueue()
    go_on = Event()
    given = pool.apply_async(
        go_on.wait, timeout=0.01, timeout_callback=lambda soft, limit: told.put((soft, limit))
    )
    assert told.get(timeout=10) == (False, 0.01)
    go_on.set()
    given.wait(10)
    pool.stop()


def test_only_a_visitor_comes_with_a_replacement() -> None:
    app = Celery("proj", set_as_current=False)

    @app.task(name="t")
    def task() -> None: ...

    with pytest.raises(TypeError, match="takes no wrong"):
        task.replace(task.s(), wrong=1)
