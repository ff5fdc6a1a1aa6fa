"""Tasks: names, signatures, the two ways to write one, and every way to call it."""

import asyncio
import datetime
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from taskmq import App, Config, ConfigError, JobState, Retry, Task, current_task, task
from taskmq.envelope import load
from taskmq.errors import TaskNotBound
from taskmq.result import Result
from taskmq.tasks import CoroutineTask, task_name
from taskmq.testing import FakeClock


@pytest.fixture
def app() -> App:
    return App(Config(), clock=FakeClock())


def envelope_of(result: Result[Any]) -> Any:
    record = result.record
    assert record is not None
    return load(record.envelope)


def arguments_of(result: Result[Any]) -> tuple[list[Any], dict[str, Any]]:
    return result.app.arguments_of(envelope_of(result))


def test_a_function_keeps_its_face(app: App) -> None:
    @app.task
    def add(x: int, y: int = 2) -> int:
        """Adds."""
        return x + y

    assert add.name == "tests.unit.test_task.test_a_function_keeps_its_face.add"
    assert add.__doc__ == "Adds."
    assert add(1) == 3  # a plain call runs here and now
    assert add.run(1, y=5) == 6
    assert repr(add) == f"<task {add.name}>"
    assert app.tasks[add.name] is add
    assert not add.is_async


def test_a_policy_is_given_to_the_decorator(app: App) -> None:
    @app.task(name="shop.pay", queue="email", priority=5, retry=Retry(), timeout=3)
    def pay() -> None: ...

    assert pay.name == "shop.pay"
    assert (pay.policy.queue, pay.policy.priority, pay.policy.timeout) == ("email", 5, 3)
    assert (pay.queue, pay.priority, pay.timeout, pay.max_deliveries) == ("email", 5, 3, 5)
    envelope = envelope_of(pay.delay())
    assert (envelope.queue, envelope.priority, envelope.timeout) == ("email", 5, 3)


def test_an_unknown_option_of_the_decorator_names_the_nearest(app: App) -> None:
    with pytest.raises(ConfigError, match="no task option 'retries'; did you mean 'retry'"):
        app.task(retries=3)(print)


@pytest.mark.parametrize("given", ["email", 5, Retry()])
def test_what_is_no_function_is_refused(app: App, given: Any) -> None:
    with pytest.raises(ConfigError, match="@task wants a function, got"):
        app.task(given)


def test_a_task_is_not_made_a_task_again(app: App) -> None:
    made = app.task(name="a")(print)
    with pytest.raises(ConfigError, match="@task wants a function, got <task a>"):
        app.task(made)


def test_a_callable_without_a_name_needs_one(app: App) -> None:
    class Adder:
        def __call__(self, x: int) -> int:
            return x + 1

    with pytest.raises(ConfigError, match="has no name of its own: pass name="):
        app.task(Adder())
    assert app.task(name="adder")(Adder())(1) == 2


def test_bind_gives_the_task_itself_as_first_argument(app: App) -> None:
    @app.task(bind=True)
    def pay(self: Task[..., Any], amount: int, *, day: datetime.date | None = None) -> str:
        return f"{self.name.rpartition('.')[2]} {amount} {day}"

    assert pay(5) == "pay 5 None"
    assert str(pay.signature) == "(amount: int, *, day: datetime.date | None = None) -> str"
    assert arguments_of(pay.delay(5)) == ([5], {})
    assert pay.converter is not None
    assert pay.converter([5], {"day": "2030-01-02"}) == ([5], {"day": datetime.date(2030, 1, 2)})
    with pytest.raises(TypeError, match="missing a required argument: 'amount'"):
        pay.submit()


def test_bind_wants_a_parameter(app: App) -> None:
    with pytest.raises(ConfigError, match=r"bind=True wants a first parameter \(self\)"):

        @app.task(bind=True)  # type: ignore[arg-type]  # the mistake under test
        def pay() -> None: ...


def test_the_request_is_there_only_while_a_job_runs(app: App) -> None:
    made = app.task(name="a")(print)
    with pytest.raises(Exception, match="no task is running here"):
        _ = made.request


class Pay(Task[[int], str]):
    """Pays."""

    name = "shop.pay"
    queue = "money"
    retry = Retry(max_attempts=2)
    store_result = False

    def run(self, amount: int) -> str:
        return f"paid {amount} on attempt {self.request.attempt}"


class Unnamed(Task[[], None]):
    def run(self) -> None: ...


def test_a_class_is_a_task_too(app: App) -> None:
    pay = app.register(Pay)
    assert isinstance(pay, Pay)
    assert app.tasks["shop.pay"] is pay
    assert (pay.policy.queue, pay.policy.retry) == ("money", Retry(max_attempts=2))
    assert pay.hooks == frozenset()
    assert arguments_of(pay.delay(5)) == ([5], {})
    assert app.register(Unnamed()).name == "tests.unit.test_task.Unnamed"


def test_a_class_with_a_wrong_policy_is_refused_when_it_is_made() -> None:
    class Wrong(Task[[], None]):
        priority = 99

    with pytest.raises(ConfigError, match="priority must be between"):
        Wrong()


def test_a_class_without_a_body_says_so(app: App) -> None:
    class Empty(Task[[], None]): ...

    with pytest.raises(NotImplementedError, match=r"Empty must define run\(\)"):
        app.register(Empty)()


def test_a_class_that_forgets_its_base_says_so(app: App) -> None:
    class Forgetful(Task[[], None]):
        def __init__(self) -> None:
            self.connection = None

    with pytest.raises(ConfigError, match=r"Forgetful.__init__ must call super\(\).__init__\(\)"):
        app.register(Forgetful)


def test_overridden_hooks_are_known() -> None:
    class Hooked(Task[[], None]):
        def on_failure(self, ctx: Any, error: BaseException) -> None: ...
        def after_return(self, ctx: Any, state: JobState) -> None: ...

    assert Hooked().hooks == {"on_failure", "after_return"}


@task(queue="email")
def loose(x: int) -> int:
    return x


def test_a_task_without_an_app_says_how_to_get_one() -> None:
    @task
    def lost() -> None: ...

    lost()  # as a plain function it needs none
    with pytest.raises(TaskNotBound, match="belongs to no app yet: pass its module in App"):
        lost.delay()


def test_a_task_of_an_included_module_finds_its_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_found.py").write_text(
        "from taskmq import task\n\n@task\ndef double(x): return 2 * x\n\n"
        "def made():\n    @task\n    def lost(): ...\n    return lost\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("shop_found")
    with pytest.raises(TaskNotBound):
        module.double.delay(4)
    first = App(Config(eager=True), include=[module.__name__])
    App(Config(eager=True), include=[module.__name__])
    assert module.double.delay(4).get() == 8
    assert module.double.app is first
    with pytest.raises(TaskNotBound):
        module.made().delay()  # include does not see it either


def test_an_app_has_a_base_for_its_functions() -> None:
    class Doubled(Task[..., Any]):
        queue = "doubled"

        def run(self, *args: Any, **kwargs: Any) -> Any:
            return 2 * super().run(*args, **kwargs)

    class Plain(Task[..., Any]): ...

    app = App(Config(eager=True), base=Doubled)
    one = app.task(name="one")(lambda: 1)
    other = app.task(name="other", base=Plain)(lambda: 1)
    assert one.delay().get() == 2
    assert one.policy.queue == "doubled"
    assert isinstance(one, Doubled)
    assert other.delay().get() == 1


def test_a_task_belongs_to_one_app(app: App) -> None:
    @app.task
    def mine() -> None: ...

    other = App(Config())
    with pytest.raises(ConfigError, match="belongs to another app already"):
        other.register(mine)
    assert mine.name not in other.tasks
    app.register(mine)  # again in its own is no harm


def test_a_task_whose_name_is_taken_stays_free(app: App) -> None:
    app.task(name="a")(print)

    @task(name="a")
    def another() -> None: ...

    with pytest.raises(ConfigError, match="two tasks are named 'a'"):
        app.register(another)
    App(Config()).register(another)


def test_only_tasks_are_registered(app: App) -> None:
    with pytest.raises(ConfigError, match=r"is no task: use @app\.task or subclass"):
        app.register(print)  # type: ignore[call-overload]  # the mistake under test


# -- calling -------------------------------------------------------------------------------------


def test_submit_takes_every_option_of_the_spec(app: App) -> None:
    @app.task
    def send(to: str, *, subject: str) -> None: ...

    result = send.submit(
        "a@b.com",
        subject="hi",
        queue="email",
        eta=60,
        expires=datetime.timedelta(hours=1),
        timeout=30,
        priority=5,
        key="order-42",
        headers={"tenant": "x"},
    )
    now = app.clock.now()
    envelope = envelope_of(result)
    assert arguments_of(result) == (["a@b.com"], {"subject": "hi"})
    assert (envelope.queue, envelope.priority, envelope.timeout) == ("email", 5, 30)
    assert (envelope.eta, envelope.expires_at) == (now + 60, now + 3600)
    assert (envelope.key, envelope.headers) == ("order-42", {"tenant": "x"})


def test_an_option_that_is_a_parameter_is_reached_by_call(app: App) -> None:
    @app.task
    def move(queue: str) -> None: ...

    result = move.call(queue="left").options(queue="right").submit()
    assert arguments_of(result) == ([], {"queue": "left"})
    assert envelope_of(result).queue == "right"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"x": 2}), ((1,), {"nothing": 2}), ((), {"y": 1})],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_stored(
    app: App, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    @app.task(name="add")
    def add(x: int, y: int = 0) -> None: ...

    for submit in (add.submit, add.delay, add.call):
        with pytest.raises(TypeError, match=r"add\(x: int, y: int = 0\)"):
            submit(*args, **kwargs)
    assert app.transport.stats() == []


def test_the_rest_of_the_signature_is_checked_too(app: App) -> None:
    @app.task(name="a")
    def rest(x: int, *more: int) -> None: ...

    @app.task(name="b")
    def needs_name(x: int, *, y: int) -> None: ...

    assert arguments_of(rest.delay(1, 2, 3, 4)) == ([1, 2, 3, 4], {})
    with pytest.raises(TypeError, match="missing a required"):
        rest.check((), {})
    with pytest.raises(TypeError, match="missing a required"):
        needs_name.check((1,), {})
    needs_name.check((1,), {"y": 2})


def test_submit_many_stores_all_in_order(app: App) -> None:
    @app.task
    def add(x: int, y: int = 0) -> int:
        return x + y

    results = add.submit_many([(1,), (2, 3), add.call(4, y=5).options(priority=9)], queue="q")
    assert [arguments_of(each) for each in results] == [([1], {}), ([2, 3], {}), ([4], {"y": 5})]
    assert [envelope_of(each).queue for each in results] == ["q", "q", "default"]
    assert add.submit_many([]) == []
    with pytest.raises(ConfigError, match="no option 'queues'"):
        add.submit_many([(1,)], queues="q")
    with pytest.raises(TypeError, match="too many positional"):
        add.submit_many([(1,), (1, 2, 3)])


def test_coroutines_submit_as_functions_do(app: App) -> None:
    @app.task
    def tag(id: str, *, codec: str = "") -> None: ...

    async def main() -> list[Result[None]]:
        return [
            await tag.adelay("a"),
            await tag.asubmit("b", priority=3, codec="an argument, not an option"),
            await tag.call("c").asubmit(),
            *await app.asubmit_many([tag.call("d")]),
        ]

    first, second, third, fourth = asyncio.run(main())
    assert [arguments_of(each)[0] for each in (first, third, fourth)] == [["a"], ["c"], ["d"]]
    assert arguments_of(second) == (["b"], {"codec": "an argument, not an option"})
    assert envelope_of(second).priority == 3


# -- names ---------------------------------------------------------------------------------------


def test_a_script_and_its_import_give_the_same_name(tmp_path: Path) -> None:
    code = (
        "from taskmq.tasks import task_name\n"
        "def outer():\n    def inner(): ...\n    return inner\n"
        "print(task_name(outer), task_name(outer()))\n"
    )
    (tmp_path / "jobs.py").write_text(code)
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__main__.py").write_text(code)

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.check_output(command, cwd=tmp_path, text=True, timeout=30).strip()

    assert run("jobs.py") == run("-c", "import jobs") == "jobs.outer jobs.outer.inner"
    assert run("-m", "jobs") == "jobs.outer jobs.outer.inner"
    assert run("-m", "shop") == "shop.outer shop.outer.inner"
    assert run("-c", code) == "__main__.outer __main__.outer.inner"


def test_the_name_of_a_class() -> None:
    assert task_name(Pay) == "tests.unit.test_task.Pay"
    assert callable(current_task)


def test_a_coroutine_function_becomes_a_task_whose_call_gives_the_coroutine(app: App) -> None:
    @app.task
    async def double(x: int) -> int:
        return 2 * x

    assert isinstance(double, CoroutineTask)
    assert asyncio.run(double(4)) == asyncio.run(double.run(4)) == 8
