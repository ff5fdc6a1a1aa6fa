"""The composition root: taking tasks in, sealing calls, opening the store."""

import importlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from taskmq import App, Config, ConfigError, JobState, MessageTooLarge, QueueConfig, task
from taskmq.envelope import Dependency, load
from taskmq.errors import EncodeError
from taskmq.events import CollectingSink, JobSubmitted
from taskmq.plugins import open_transport
from taskmq.testing import FakeClock
from taskmq.transport import Transport

FILES = {
    "shop/__init__.py": "",
    "shop/mail.py": (
        "from taskmq import task\n"
        "@task\ndef send(to: str) -> str: ...\n"
        "again = send\n"
        "not_a_task = 5\n"
    ),
    "shop/deep/__init__.py": "from shop.mail import send\n",
    "shop/deep/pay.py": "from taskmq import task\n@task(queue='money')\ndef pay() -> None: ...\n",
    "needy.py": "import need\n",
    "broken.py": "1 / 0\n",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_included_modules_are_loaded_when_they_are_needed(modules: None) -> None:
    app = App(Config(), include=["shop.mail"])
    assert app.tasks.names() == []
    app.load()
    assert app.tasks.names() == ["shop.mail.send"]
    app.load()
    assert app.tasks["shop.mail.send"].app is app


def test_what_the_modules_need_is_set_up_before_they_are_imported(modules: None) -> None:
    seen: list[bool] = []
    app = App(
        Config(), include=["shop.mail"], setup=lambda: seen.append("shop.mail" in sys.modules)
    )
    app.load()
    app.load()
    assert seen == [False]

    app = App(Config(), setup=lambda: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            app.load()


def test_discover_takes_a_whole_package_in(modules: None) -> None:
    app = App(Config())
    app.discover("shop")
    assert app.tasks.names() == ["shop.deep.pay.pay", "shop.mail.send"]
    assert app.tasks["shop.deep.pay.pay"].policy.queue == "money"


def test_a_module_object_can_be_included(modules: None) -> None:
    app = App(Config())
    app.include(importlib.import_module("shop.mail"))
    assert app.tasks.names() == ["shop.mail.send"]


@pytest.mark.parametrize("name", ["nowhere", "shop.nowhere", "nowhere.deep.down"])
def test_a_module_that_does_not_exist(modules: None, name: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot include '{name}': there is no module"):
        App(Config()).include(name)


@pytest.mark.parametrize(
    ("name", "error"), [("needy", ModuleNotFoundError), ("broken", ZeroDivisionError)]
)
def test_an_error_inside_of_a_module_is_its_own_and_stays(
    modules: None, name: str, error: type[Exception]
) -> None:
    app = App(Config(), include=[name])
    for _ in range(2):  # the second call must not pass as if all were well
        with pytest.raises(error):
            app.load()


def test_two_apps_live_side_by_side() -> None:
    first, second = App(Config()), App(Config())
    first.task(name="a")(print).delay()
    assert (len(first.transport.stats()), second.transport.stats()) == (1, [])
    assert len(second.tasks) == 0


def test_nothing_is_opened_before_it_is_used(tmp_path: Path) -> None:
    app = App(Config(transport="nonsense://x"))
    task = app.task(name="a")(print)
    with pytest.raises(ConfigError, match="no transport for nonsense://"):
        task.delay()


def test_close_and_open_again() -> None:
    with App(Config()) as app:
        task = app.task(name="a")(print)
        first = task.delay()
    assert first.state == "UNKNOWN"  # it was in memory
    assert task.delay().state == "QUEUED"
    app.close()
    app.close()


def test_an_open_store_is_used_as_it_is() -> None:
    store = open_transport("memory://")
    assert App(Config(transport="nonsense://x"), transport=store).transport is store


def test_without_a_configuration_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKMQ_DEFAULT_QUEUE", "email")
    assert App().config.default_queue == "email"


# -- sealing -------------------------------------------------------------------------------------


def test_a_call_decides_before_its_task_and_that_before_the_app() -> None:
    app = App(Config(default_queue="app", store_results=False, result_ttl=5, key_ttl=7))
    plain = app.task(name="plain")(print)
    chosen = app.task(
        name="chosen", queue="task", priority=1, store_result=True, result_ttl=6, expires=10
    )(print)

    def sealed(call: object) -> tuple[object, ...]:
        e = app.seal(call, 1000.0).envelope  # type: ignore[arg-type]  # a call of either task
        return e.queue, e.priority, e.store_result, e.result_ttl, e.expires_at

    assert sealed(plain.call()) == ("app", 0, False, 5, None)
    assert sealed(chosen.call()) == ("task", 1, True, 6, 1010.0)
    assert sealed(
        chosen.call().options(
            queue="call", priority=-1, store_result=False, result_ttl=0, expires=0.0
        )
    ) == ("call", -1, False, 0, 1000.0)
    assert app.seal(plain.call(), 1000.0).envelope.key_ttl == 7


def test_a_sealed_call_keeps_what_a_workflow_set() -> None:
    app = App(Config())
    call = replace(
        app.task(name="a")(print).call(), after=(Dependency("J0", 0),), workflow="W", feeds=True
    )
    envelope = load(app.seal(call, 0.0).data)
    assert (envelope.after, envelope.workflow, envelope.feeds) == (
        (Dependency("J0", 0),),
        "W",
        True,
    )


class Yaml:
    name = "yaml"
    is_json = False

    def encode(self, value: object) -> bytes:
        return repr(value).encode()

    def decode(self, data: bytes) -> object:
        return eval(data)  # noqa: S307  # the test's own text


def test_codecs_by_task_and_by_call() -> None:
    app = App(Config())
    app.add_codec(Yaml())
    task = app.task(name="a", codec="yaml")(print)
    for call, codec in [(task.call(1), "yaml"), (task.call(1).options(codec="json"), "json")]:
        envelope = load(app.seal(call, 0.0).data)
        assert envelope.codec == codec
        assert list(app.arguments_of(envelope)[0]) == [1]


def test_own_types_travel_once_they_are_registered() -> None:
    app = App(Config())
    task = app.task(name="a")(print)
    with pytest.raises(EncodeError, match=r"cannot encode a builtins\.complex"):
        task.delay(1j)
    app.register_codec(complex, encode=lambda c: [c.real, c.imag], decode=lambda v: complex(*v))
    assert app.arguments_of(load(app.seal(task.call(1j), 0.0).data)) == ([1j], {})


def test_a_job_over_the_limit_is_refused_whole() -> None:
    app = App(Config(max_message_bytes=300))
    task = app.task(name="a")(print)
    with pytest.raises(MessageTooLarge, match="over the limit of 300"):
        app.submit_many([task.call("small"), task.call("x" * 300)])
    assert app.transport.stats() == []


# -- submitting ----------------------------------------------------------------------------------


def test_jobs_of_several_tasks_go_in_one_batch() -> None:
    app = App(Config())
    calls = [app.task(name=name)(print).call(name) for name in "abc"]
    results = app.submit_many(calls)
    records = app.transport.get([each.id for each in results])
    assert [each.task for each in records if each] == ["a", "b", "c"]
    assert app.submit_many([]) == []


def test_a_key_leads_to_the_job_that_has_it() -> None:
    app = App(Config())
    task = app.task(name="a")(print)
    first = task.submit(1, key="order-42")
    second = task.submit(1, key="order-42")
    assert (first.created, second.created) == (True, False)
    assert second.id == first.id


def test_submissions_are_told_to_the_sinks() -> None:
    clock, sink = FakeClock(), CollectingSink()
    app = App(Config(), clock=clock)
    app.add_sink(sink)
    task = app.task(name="a")(print)
    first = task.submit(1, key="k", queue="email")
    task.submit(1, key="k", queue="email")
    events = [each for each in sink.events if isinstance(each, JobSubmitted)]
    assert [(e.task, e.queue, e.key, e.created) for e in events] == [
        ("a", "email", "k", True),
        ("a", "email", "k", False),
    ]
    assert {e.job_id for e in events} == {first.id}
    assert {e.at for e in events} == {clock.now()}


def test_events_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    app = App(Config(events="stderr"))
    app.task(name="a")(print).delay()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith('{"event":"task.submitted",')


def test_event_lines_can_go_elsewhere_later(capsys: pytest.CaptureFixture[str]) -> None:
    app = App(Config(events="stderr"))
    app.write_events("stdout")
    app.task(name="a")(print).delay()
    out, err = capsys.readouterr()
    assert (out.count("task.submitted"), err) == (1, "")
    app.write_events("none")
    assert not app.emitter.active


def test_a_handle_for_a_job_of_somebody_else() -> None:
    app = App(Config())
    submitted = app.task(name="a")(print).delay()
    assert app.result(submitted.id).state is JobState.QUEUED
    assert app.result("nobody").state is JobState.UNKNOWN


def test_an_app_knows_the_queues_of_its_tasks() -> None:
    app = App(Config(queues={"bulk": QueueConfig()}))
    app.register(task(name="send", queue="email")(print))
    assert app.queues() == ("default", "bulk", "email")


def test_threads_that_come_first_at_once_share_one_store() -> None:
    app, start = App(Config()), threading.Barrier(8)

    def look() -> Transport:
        start.wait(10)
        return app.transport

    with ThreadPoolExecutor(8) as threads:
        stores = [each.result(10) for each in [threads.submit(look) for _ in range(8)]]
    assert all(store is stores[0] for store in stores)
