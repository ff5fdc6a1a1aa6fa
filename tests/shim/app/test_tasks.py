"""Declaring tasks: names, options, bases, sharing."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import celery
from celery import Celery, Task, current_app, shared_task
from celery.exceptions import NotRegistered
from celery.local import PromiseProxy
from celery.utils.abstract import CallableTask

pytestmark = pytest.mark.unit

MakeApp = Callable[..., Any]


def test_a_function_becomes_a_task_when_it_is_needed(app: Any) -> None:
    @app.task
    def add(x: int, y: int) -> int:
        """Adds."""
        return x + y

    assert type(add) is PromiseProxy
    assert not add.__evaluated__()
    assert add.name == f"{__name__}.add"
    assert (add.__name__, add.__doc__, add.__module__) == ("add", "Adds.", __name__)
    assert add(1, 2) == 3
    assert add.run is add.__wrapped__
    assert isinstance(add, Task)
    assert isinstance(add, CallableTask)
    assert repr(add) == f"<@task: {add.name} of proj at {id(app):#x}>"
    assert app.tasks[add.name] is add._get_current_object()


def test_main_is_called_after_the_app(make_app: MakeApp) -> None:
    assert make_app("shop").gen_task_name("f", "__main__") == "shop.f"
    assert make_app(None).gen_task_name("f", "__main__") == "__main__.f"
    assert make_app("shop").gen_task_name("f", "other.mod") == "other.mod.f"


def test_options_become_attributes_known_or_not(app: Any) -> None:
    @app.task(name="n", bind=True, max_retries=None, queue="q", once={"graceful": True})
    def bound(self: Any, x: int) -> Any:
        return self, x

    assert (bound.name, bound.max_retries, bound.queue) == ("n", None, "q")
    assert bound.once == {"graceful": True}
    assert bound(3) == (app.tasks["n"], 3)


def test_what_a_task_leaves_open_comes_from_the_settings(make_app: MakeApp) -> None:
    app = make_app(task_ignore_result=True, task_serializer="yaml", task_track_started=True)

    @app.task
    def plain() -> None: ...

    @app.task(ignore_result=False, serializer="json")
    def decided() -> None: ...

    assert (plain.ignore_result, plain.serializer, plain.track_started) == (True, "yaml", True)
    assert (decided.ignore_result, decided.serializer) == (False, "json")


@pytest.mark.parametrize(("settings", "late"), [({}, None), ({"task_acks_late": False}, False)])
def test_acks_late_is_open_unless_somebody_wrote_it(
    make_app: MakeApp, settings: dict[str, Any], late: bool | None
) -> None:
    app = make_app(**settings)

    @app.task
    def plain() -> None: ...

    assert plain.acks_late is late


def test_annotations_change_tasks_from_the_settings(make_app: MakeApp) -> None:
    app = make_app(task_annotations={"*": {"priority": 3}, f"{__name__}.one": {"queue": "x"}})

    @app.task
    def one() -> None: ...

    @app.task
    def two() -> None: ...

    assert (one.priority, one.queue) == (3, "x")
    assert (two.priority, hasattr(two, "queue")) == (3, False)


def test_a_base_class_is_used_with_its_call(app: Any) -> None:
    class Base(Task):
        abstract = True
        seen: list[Any] = []  # noqa: RUF012  # what programs write

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            self.seen.append(args)
            return super().__call__(*args, **kwargs)

    @app.task(base=Base)
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == 8
    assert Base.seen == [(4,)]
    assert isinstance(double._get_current_object(), Base)


@pytest.mark.parametrize("assigned", ["attribute", "argument", "path"])
def test_all_tasks_of_an_app_can_have_another_base(make_app: MakeApp, assigned: str) -> None:
    given = {"argument": OwnTask, "path": f"{OwnTask.__module__}:OwnTask"}.get(assigned)
    if assigned == "path":
        given = OwnTask  # a module of tests cannot be imported by name
    app = make_app(task_cls=given)
    if assigned == "attribute":
        app.Task = OwnTask

    @app.task
    def f() -> None: ...

    assert f.own == "yes"
    assert issubclass(make_app(task_cls="celery.app.task:Task").Task, Task)


class OwnTask(Task):
    own = "yes"


def test_class_based_tasks_are_registered_as_instance_or_class(app: Any) -> None:
    class Named(app.Task):  # type: ignore[misc]  # made at run time
        name = "named"

        def run(self, x: int) -> int:
            return x

    class Unnamed(Task):
        def run(self, x: int) -> int:
            return x

    named, unnamed = app.register_task(Named()), app.register_task(Unnamed)
    assert app.tasks["named"] is named
    assert unnamed.name == f"{__name__}.Unnamed"
    assert (named.app, unnamed.app, unnamed.run(3)) == (app, app, 3)


def test_a_shared_task_belongs_to_every_app(make_app: MakeApp) -> None:
    early = make_app("early")
    early.finalize()

    @shared_task(name="shared")
    def shared(x: int) -> int:
        return x

    late = make_app("late")
    for app in (early, late):
        app.set_current()
        assert (shared.app, shared.name) == (app, "shared")
        assert app.tasks["shared"].app is app


def test_a_task_of_ones_own_wins_over_a_shared_one_of_its_name(make_app: MakeApp) -> None:
    one, two = make_app(), make_app()

    @one.task(name="same")
    def first() -> int:
        return 1

    @two.task(name="same")
    def second() -> int:
        return 2

    assert (one.tasks["same"](), two.tasks["same"]()) == (1, 2)


def test_without_autofinalize_tasks_wait(make_app: MakeApp) -> None:
    app = make_app(autofinalize=False)

    @app.task
    def f() -> None: ...

    with pytest.raises(RuntimeError, match="app not finalized"):
        _ = f.name
    told = []
    app.on_after_finalize.connect(lambda sender, **kwargs: told.append(sender), weak=False)
    app.finalize()
    assert f.name == f"{__name__}.f"
    assert told == [app]


def test_an_unknown_task_is_named(app: Any) -> None:
    with pytest.raises(NotRegistered, match=r"no\.such"):
        app.tasks["no.such"]
    with pytest.raises(NotRegistered):
        app.tasks.unregister("no.such")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda app: app.task(3), "must be a callable"),
        (lambda app: app.task(len, 3), r"takes exactly 1 argument \(2 given\)"),
    ],
)
def test_a_wrong_decoration_says_so(app: Any, call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call(app)


def test_the_current_app_follows_the_program(make_app: MakeApp) -> None:
    one, two = make_app("one", set_as_current=True), make_app("two", set_as_current=True)
    assert current_app.main == "two"
    one.set_current()
    assert current_app == one
    assert two.main == "two"


def test_a_task_pickles_as_its_name(make_app: MakeApp) -> None:
    app = make_app(set_as_current=True)

    @app.task(name="pickled")
    def f() -> None: ...

    task = app.tasks["pickled"]
    task.__class__.__module__ = "json"  # a module of tests cannot be imported by name
    assert pickle.loads(pickle.dumps(task)) is task  # noqa: S301  # our own bytes


def test_an_app_is_a_context_manager_and_has_an_owner() -> None:
    with Celery("c", set_as_current=False) as app:
        assert repr(app) == f"<Celery c at {id(app):#x}>"


def test_versions_agree() -> None:
    assert celery.VERSION_BANNER.startswith(celery.__version__)
    assert celery.version_info == celery.VERSION
    assert celery.__version__.startswith("{}.{}.{}".format(*celery.VERSION[:3]))


def test_all_that_the_package_names_is_there() -> None:
    given: dict[str, Any] = {}
    exec("from celery import *", given)  # noqa: S102  # as a program does
    assert set(celery.__all__) <= set(given)
    assert given["bugreport"] is celery.app.bugreport
    assert given["SERIES"] in celery.VERSION_BANNER


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = celery.nonsense


def test_a_shared_task_is_shared_once() -> None:
    with pytest.raises(TypeError, match="more than once"):
        shared_task(shared_task(lambda: 1, name="t.once"))
