"""Calls that are alike are copies of a draft: whatever it was made from may change."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.entity import Exchange, Queue

from celery import Celery, signals
from celery.app.amqp import AMQP
from taskmq.envelope import Envelope, load
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit

Stored = Callable[..., Envelope]
TASK = "proj.add"


@pytest.fixture
def program(app: Any) -> Any:
    """An app with a task that has been called twice already, so that there is a draft."""

    @app.task(name=TASK)
    def add(x: int, y: int = 2) -> int:
        return x + y

    add.delay(1)
    add.delay(2)
    assert TASK in engine_for(app).drafts
    return app


def stored(app: Any, result: Any) -> Envelope:
    record = engine_for(app).transport.get([result.id])[0]
    assert record is not None
    return load(record.envelope)


def test_calls_differ_in_id_and_arguments(program: Any) -> None:
    add = program.tasks[TASK]
    first, second = add.delay(1), add.apply_async((3,), {"y": 4}, task_id="mine")
    assert (first.id == second.id, second.id) == (False, "mine")
    assert bytes(stored(program, first).args) == b"[1]"
    assert bytes(stored(program, second).args) == b"[3]"
    assert bytes(stored(program, second).kwargs) == b'{"y":4}'


def test_a_draft_is_made_anew_for_other_options(program: Any) -> None:
    add = program.tasks[TASK]
    made = []
    to_q = {"queue": "q", "priority": 3}
    for options in (to_q, to_q, {}, {"prop": "x"}):
        envelope = stored(program, add.apply_async((1,), **options))
        made.append((envelope.queue, envelope.priority, envelope.headers.get("properties")))
    others = [("celery", 0, None), ("celery", 0, {"prop": "x"})]
    assert made == [("q", 3, None), ("q", 3, None), *others]


def test_arguments_given_as_a_list_are_told_from_a_tuple(program: Any) -> None:
    add = program.tasks[TASK]
    calls = [add.apply_async(args) for args in ((1,), [1], [2], (2,))]
    listed = ["taskmq_listed" in stored(program, each).headers for each in calls]
    assert listed == [False, True, True, False]


def test_delays_count_from_each_call(make_app: Callable[..., Any]) -> None:
    app = make_app()
    clock = engine_for(app).clock = SimpleNamespace(now=lambda: 1000.0)
    first = app.send_task(TASK, countdown=5, expires=9)
    clock.now = lambda: 2000.0
    second = app.send_task(TASK, countdown=5, expires=9)
    assert [stored(app, each).eta for each in (first, second)] == [1005, 2005]
    assert [stored(app, each).expires_at for each in (first, second)] == [1009, 2009]


def test_what_can_be_changed_in_place_is_not_kept(program: Any) -> None:
    add, headers = program.tasks[TASK], {"tenant": "a"}
    first = add.apply_async((1,), headers=headers)
    headers["tenant"] = "b"
    second = add.apply_async((1,), headers=headers)
    assert [stored(program, each).headers["tenant"] for each in (first, second)] == ["a", "b"]


def change_setting(app: Any) -> None:
    app.conf.task_default_priority = 7


def change_routes(app: Any) -> None:
    app.conf.task_routes = {TASK: {"priority": 7}}


def use_function(app: Any) -> None:
    app.conf.task_routes = lambda name, *args, **kw: {"priority": 7}


def change_queue(app: Any) -> None:
    app.amqp.queues.add(Queue("celery", Exchange("news", type="topic"), "celery"))


def change_acks(app: Any) -> None:
    app.tasks[TASK].acks_late = False


def change_messages(app: Any) -> None:
    as_task_v2 = app.amqp.as_task_v2
    app.amqp.as_task_v2 = lambda *args, **kw: as_task_v2(*args, **{**kw, "shadow": "other"})


def register_anew(app: Any) -> None:
    del app._tasks[TASK]
    app.task(name=TASK, priority=7)(lambda x: x)


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        (change_setting, "priority", 7),
        (change_routes, "priority", 7),
        (use_function, "priority", 7),
        (register_anew, "priority", 7),
        (change_acks, "ack", "on_receipt"),
        (change_queue, "properties", {"exchange": "news", "routing_key": "celery"}),
        (change_messages, "shadow", "other"),
    ],
)
def test_what_a_message_is_made_from_may_change(
    program: Any, change: Callable[[Any], None], field: str, value: Any
) -> None:
    def seen() -> Any:
        envelope = stored(program, program.tasks[TASK].delay(1))
        return getattr(envelope, field, None) or envelope.headers.get(field)

    before = seen()
    change(program)
    assert before != value
    assert [seen(), seen()] == [value, value]


def test_a_task_is_called_by_name_too(program: Any) -> None:
    program.tasks[TASK].acks_late = False
    called, named = program.tasks[TASK].delay(1), program.send_task(TASK, (1,))
    assert stored(program, called).ack == "on_receipt"
    assert stored(program, named).ack == "on_success"  # as with Celery: nobody knows the task here


def test_a_source_is_asked_for_each_call(make_app: Callable[..., Any]) -> None:
    settings = SimpleNamespace(task_default_priority=1, task_default_queue="one")
    app = make_app()
    app.config_from_object(settings)
    made = []
    for priority, queue in ((1, "one"), (2, "one"), (2, "two")):
        settings.task_default_priority, settings.task_default_queue = priority, queue
        envelope = stored(app, app.send_task(TASK, (1,)))
        made.append((envelope.priority, envelope.queue))
    assert made == [(1, "one"), (2, "one"), (2, "two")]


def test_who_connects_later_sees_the_next_message(program: Any) -> None:
    seen: list[Any] = []

    def look(headers: Any = None, **kwargs: Any) -> None:
        seen.append((headers["id"], headers["argsrepr"]))

    signals.before_task_publish.connect(look)
    try:
        result = program.tasks[TASK].delay(5)
    finally:
        signals.before_task_publish.disconnect(look)
    program.tasks[TASK].delay(6)
    assert seen == [(result.id, "(5,)")]


def test_an_id_is_used_once_more(program: Any, work: Callable[..., None]) -> None:
    add = program.tasks[TASK]
    add.apply_async((1,), task_id="mine")
    beside = add.apply_async((2,), task_id="mine")
    work(program)
    assert (beside.get(timeout=1), beside.state) == (3, "SUCCESS")
    again = add.apply_async((5,), task_id="mine")
    work(program)
    assert (again.id, again.get(timeout=1)) == ("mine", 7)


def test_messages_of_another_class_are_made_for_each_call(make_app: Callable[..., Any]) -> None:
    class Numbered(AMQP):
        count = 0

        def as_task_v2(self, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return super().as_task_v2(*args, **{**kwargs, "shadow": f"n{self.count}"})

    app: Celery = make_app(amqp=Numbered)
    calls = [app.send_task(TASK), app.send_task(TASK)]
    assert [stored(app, each).headers["shadow"] for each in calls] == ["n1", "n2"]


def test_names_of_tasks_without_end_are_not_all_kept(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("celery.app.drafts.MOST", 10)
    for number in range(25):
        app.send_task(f"made.up.{number}")
    assert len(engine_for(app).drafts) == 5
