"""Classes as the base of tasks that are functions: ``@app.task(base=…)``."""

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from taskmq import App, Config, ConfigError, JobState, Retry, Task, TaskContext, task
from taskmq.testing import FakeClock


@pytest.fixture
def app() -> App:
    return App(Config(eager=True), clock=FakeClock())


class Telling(Task[..., Any]):
    """Tells of every hook, and what it can see of the job."""

    queue = "told"
    retry = Retry(max_attempts=2, base=0.1)
    told: ClassVar[list[Any]] = []

    def before_start(self, ctx: TaskContext) -> None:
        self.told.append((self.name, *ctx.arguments))

    def on_success(self, ctx: TaskContext, result: Any) -> None:
        self.told.append(result)

    def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
        self.told.append(error)

    def after_return(self, ctx: TaskContext, state: JobState) -> None:
        self.told.append(state)


@pytest.fixture
def told() -> list[Any]:
    Telling.told.clear()
    return Telling.told


class Around(Task[..., Any]):
    """Adds one to the first argument, and says where it is."""

    inside: ClassVar[list[str]] = []

    def run(self, *args: Any, **kwargs: Any) -> Any:
        with self.entered():
            return super().run(args[0] + 1, *args[1:], **kwargs)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        self.inside.append(self.name)
        yield
        self.inside.pop()


def test_hooks_and_policy_of_the_base_hold(app: App, told: list[Any]) -> None:
    @app.task(name="add", base=Telling, priority=3)
    def add(x: int, y: int = 2) -> int:
        return x + y

    assert isinstance(add, Telling)
    assert (add.policy.queue, add.policy.priority) == ("told", 3)
    assert add.delay(1, y=4).get() == 5
    assert told == [("add", [1], {"y": 4}), 5, JobState.SUCCEEDED]


def test_options_of_the_decorator_are_in_front_of_the_base(app: App, told: list[Any]) -> None:
    @app.task(name="bad", base=Telling, queue="mine", retry=Retry(max_attempts=1))
    def bad() -> None:
        raise ValueError("no")

    assert bad.policy.queue == "mine"
    assert bad.delay().state is JobState.FAILED
    assert [type(each) for each in told] == [tuple, ValueError, JobState]


def test_run_of_the_base_is_around_the_function(app: App) -> None:
    @app.task(name="seen", base=Around, bind=True)
    def seen(self: Any, x: int) -> tuple[int, list[str]]:
        return x, list(self.inside)

    assert seen(1) == (2, ["seen"])
    assert seen.delay(1).get() == (2, ["seen"])
    assert Around.inside == []


def test_annotations_are_those_of_the_function(app: App) -> None:
    @app.task(name="spread", base=Around)
    def spread(x: float, rest: set[int]) -> bool:
        return isinstance(rest, set)

    assert spread.delay(1.0, {2, 3}).get()
    with pytest.raises(TypeError, match="spread"):
        spread.delay(1.0)  # type: ignore[call-arg]  # the mistake under test


def test_coroutines_have_a_run_that_is_one(app: App) -> None:
    class Awaiting(Task[..., Any]):
        async def run(self, *args: Any, **kwargs: Any) -> Any:
            return [await super().run(*args, **kwargs)]

    @app.task(name="fetch", base=Awaiting)
    async def fetch(x: int) -> int:
        return x

    handle: Any = fetch.delay(1)
    assert handle.get() == [1]
    with pytest.raises(ConfigError, match="base=Around: its run"):
        app.task(name="other", base=Around)(fetch.__wrapped__)


def test_a_task_without_an_app_has_a_base(app: App, told: list[Any]) -> None:
    @task(name="later", base=Telling)
    def later() -> str:
        return "done"

    assert app.register(later).delay().get() == "done"
    assert told[1:] == ["done", JobState.SUCCEEDED]


class Own(Task[..., Any]):
    def __init__(self) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("base", "why"),
    [
        (object, "derived from taskmq.Task"),
        ("Telling", "derived from taskmq.Task"),
        (Own, "has no __init__ of its own"),
    ],
)
def test_what_is_no_base_is_refused(app: App, base: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        app.task(base=base)(lambda: None)
