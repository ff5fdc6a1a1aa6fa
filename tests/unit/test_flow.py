"""What a call brings along: limits and turns, from the task, the queue and the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from taskmq import App, Call, Config, ConfigError, Dependency, QueueConfig, Task
from taskmq.envelope import Envelope, load
from taskmq.limits import Fair, Limit, Rate

QUEUES = {"limited": QueueConfig(rate_limit="10/s", fair_weights={"gold": 3.0})}


@pytest.fixture
def app() -> App:
    return App(Config(queues=QUEUES))


def sealed(app: App, call: Call[Any]) -> Envelope:
    return load(app.seal(call, 0.0).data)


def body(user_id: int, *, plan: str = "free") -> None: ...


def test_a_plain_call_has_no_limits_and_its_envelope_does_not_mention_them(app: App) -> None:
    data = app.seal(app.task(body).call(1), 0.0).data
    assert b"limits" not in data
    assert b"fair" not in data


def test_limits_come_in_order_concurrency_own_rate_rate_of_the_queue(app: App) -> None:
    task = app.task(
        queue="limited",
        concurrency_key="user:{user_id}",
        concurrency_limit=3,
        rate_limit=Rate(100, per=60.0, burst=5),
        rate_key="{plan}",
    )(body)
    assert sealed(app, task.call(7)).limits == (
        Limit("concurrency", "user:7", 3),
        Limit("rate", "free", 100, 60.0, 5),
        Limit("rate", "queue:limited", 10, 1.0),
    )


def test_without_a_key_the_task_is_the_key_and_without_a_limit_it_is_one(app: App) -> None:
    rated = app.task(name="rated", rate_limit="5/h")(body)
    two = app.task(name="two", concurrency_limit=2)(body)
    alone = app.task(name="alone", concurrency_key="all")(body)
    assert sealed(app, rated.call(1)).limits == (Limit("rate", "task:rated", 5, 3600.0),)
    assert sealed(app, two.call(1)).limits == (Limit("concurrency", "task:two", 2),)
    assert sealed(app, alone.call(1)).limits == (Limit("concurrency", "all", 1),)


def test_turns_have_the_weight_that_the_queue_declares(app: App) -> None:
    task = app.task(queue="limited", fair_key="{plan}")(body)
    assert sealed(app, task.call(1)).fair == Fair("free")
    assert sealed(app, task.call(1, plan="gold")).fair == Fair("gold", 3.0)


def test_a_call_can_name_its_own_keys(app: App) -> None:
    task = app.task(rate_limit="1/s", rate_key="{plan}", fair_key="{plan}")(body)
    call = task.call(1).options(rate_key="r", concurrency_key="c", fair_key="f")
    envelope = sealed(app, call)
    assert envelope.limits == (Limit("concurrency", "c", 1), Limit("rate", "r", 1, 1.0))
    assert envelope.fair == Fair("f")
    plain = app.task(name="plain")(body)
    with pytest.raises(ConfigError, match="task 'plain' has no rate_limit"):
        app.seal(plain.call(1).options(rate_key="r"), 0.0)


def test_a_template_may_use_keywords_defaults_and_attributes(app: App) -> None:
    @app.task(bind=True, concurrency_key="{order[id]}-{count}-{colour}")
    def paint(self: object, /, order: dict[str, str], count: int = 2, **more: str) -> None: ...

    assert sealed(app, paint.call({"id": "o1"}, colour="red")).limits[0].key == "o1-2-red"


def test_a_template_that_names_no_parameter_is_refused_with_the_task(app: App) -> None:
    with pytest.raises(ConfigError, match=r"'usr_id', which is no parameter.*'user_id'"):
        app.task(name="t", concurrency_key="{usr_id}")(body)


@pytest.mark.parametrize("place", [0, "user_id"])
def test_the_result_of_another_job_is_no_key(app: App, place: int | str) -> None:
    task = app.task(concurrency_key="user:{user_id}")(body)
    call = replace(Call(task), after=(Dependency("other", into=place),))
    with pytest.raises(ConfigError, match="result of another job is not known yet"):
        app.seal(call, 0.0)


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("rate_limit must be like", lambda: App(Config()).task(rate_limit="fast")(body)),
    ("rate_limit must be like", lambda: App(Config()).task(rate_limit=5)(body)),
    ("rate_key needs a rate_limit", lambda: App(Config()).task(rate_key="{plan}")(body)),
    ("concurrency_limit must be", lambda: App(Config()).task(concurrency_limit=0)(body)),
    ("concurrency_key must be text", lambda: App(Config()).task(concurrency_key="{}")(body)),
    (r"QueueConfig.rate_limit must be like", lambda: QueueConfig(rate_limit="x")),
    (r"QueueConfig.fair_weights\['a'\] must be > 0", lambda: QueueConfig(fair_weights={"a": 0})),
]


@pytest.mark.parametrize(("message", "make"), WRONG)
def test_wrong_options_are_refused_in_one_line(message: str, make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_class_task_has_the_same_options(app: App) -> None:
    class Send(Task[[str], None]):
        concurrency_key = "{to}"
        concurrency_limit = 4

        def run(self, to: str) -> None: ...

    task = app.register(Send)
    assert sealed(app, task.call("a")).limits == (Limit("concurrency", "a", 4),)
