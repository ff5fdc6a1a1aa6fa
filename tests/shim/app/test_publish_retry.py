"""``task_publish_retry``: calls of a task while the store cannot be reached."""

from collections.abc import Callable
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from celery import Celery, chain
from taskmq.errors import TransportUnavailable
from taskmq_celery.engine import engine_for

MakeApp = Callable[..., Celery]
AT_ONCE = {"max_retries": 2, "interval_start": 0, "interval_step": 0, "interval_max": 0}


class Outage:
    """Lets a store be out of reach, so many times; ``after``: what it was given is there."""

    def __init__(self, store: Any, times: int, *, after: bool = False) -> None:
        self.left, self.after, self.tried = times, after, 0
        self.ids: list[list[str]] = []
        self._enqueue = store.enqueue
        store.enqueue = self

    def __call__(self, jobs: Any) -> Any:
        self.tried += 1
        self.ids.append([job.envelope.id for job in jobs])
        if self.left and not self.after:
            self.left -= 1
            raise TransportUnavailable("gone")
        stored = self._enqueue(jobs)
        if self.left:
            self.left -= 1
            raise TransportUnavailable("the answer got lost")
        return stored


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    app = make_app(task_publish_retry_policy=AT_ONCE)

    @app.task(name="add")  # type: ignore[untyped-decorator]  # as Celery's is
    def add(a: int, b: int) -> int:
        return a + b

    return app


def outage(app: Celery, times: int, *, after: bool = False) -> Outage:
    return Outage(engine_for(app).transport, times, after=after)


def depth(app: Celery) -> int:
    (queue,) = engine_for(app).transport.stats(["celery"])
    return queue.ready


@pytest.mark.parametrize("after", [False, True])
def test_a_call_is_stored_once_the_store_is_back(app: Celery, after: bool) -> None:
    gone = outage(app, 2, after=after)
    app.tasks["add"].delay(1, 2)
    assert gone.tried == 3
    assert len({tuple(ids) for ids in gone.ids}) == 1
    assert depth(app) == 1


@pytest.mark.parametrize("after", [False, True])
def test_a_canvas_is_stored_whole_once_the_store_is_back(app: Celery, after: bool) -> None:
    gone = outage(app, 2, after=after)
    add = app.tasks["add"]
    chain(add.s(1, 2), add.s(3), add.s(4)).delay()
    assert gone.tried == 3
    assert [len(ids) for ids in gone.ids] == [3, 3, 3]
    assert depth(app) == 1  # the others wait for it


@pytest.mark.parametrize(
    ("settings", "options", "tries"),
    [
        ({}, {}, 3),
        ({}, {"retry": False}, 1),
        ({"task_publish_retry": False}, {}, 1),
        ({"task_publish_retry": False}, {"retry": True}, 3),
        ({}, {"retry_policy": {"max_retries": 0}}, 1),
        ({}, {"retry_policy": {"max_retries": 4}}, 5),
    ],
)
def test_not_for_ever(
    app: Celery, settings: dict[str, Any], options: dict[str, Any], tries: int
) -> None:
    app.conf.update(settings)
    gone = outage(app, 9)
    with pytest.raises(OperationalError, match="gone"):
        app.tasks["add"].apply_async((1, 2), **options)
    assert gone.tried == tries
    assert depth(app) == 0


def test_the_signal_tells_of_the_policy_of_the_call(app: Celery) -> None:
    from celery.signals import before_task_publish

    told: list[Any] = []

    def hear(retry_policy: Any, **_: Any) -> None:
        told.append(retry_policy)

    before_task_publish.connect(hear)
    try:
        app.tasks["add"].apply_async((1, 2), retry_policy={"max_retries": 7})
    finally:
        before_task_publish.disconnect(hear)
    assert told == [{**AT_ONCE, "max_retries": 7}]
