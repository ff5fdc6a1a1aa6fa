"""A program is refused by a store that cannot do what it needs, in one line."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from taskmq import App, Config, ConfigError, Dependency, QueueConfig, Transport
from taskmq.clock import SystemClock
from taskmq.config import CAPABILITIES
from taskmq.plugins import open_transport
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transport import Capabilities
from taskmq.worker import Worker


class Poor(TransportWrapper):
    """A store that lacks something."""

    lacks: tuple[str, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(self.inner.capabilities, **dict.fromkeys(self.lacks, False))


def poor(*lacks: str) -> Poor:
    store = Poor(open_transport("memory://"))
    store.lacks = lacks
    return store


def app_on(store: Transport, **config: Any) -> App:
    return App(Config(**config), transport=store)


def limited(app: App) -> None:
    app.task(name="t", rate_limit="10/s")(_nothing)


def exclusive(app: App) -> None:
    app.task(name="t", concurrency_limit=1)(_nothing)


def fair(app: App) -> None:
    app.task(name="t", fair_key="a")(_nothing)


def plain(app: App) -> None:
    app.task(name="t")(_nothing)


def _nothing() -> None:
    """A task."""


CASES: list[tuple[str, Callable[[App], None], dict[str, QueueConfig], str]] = [
    ("limits", limited, {}, "task 't' has a rate_limit"),
    ("limits", exclusive, {}, "task 't' has a concurrency limit"),
    ("fair_turns", fair, {}, "task 't' has a fair_key"),
    ("limits", plain, {"q": QueueConfig(rate_limit="1/s")}, "queue 'q' has a rate_limit"),
    ("capacity", plain, {"q": QueueConfig(capacity=5)}, "queue 'q' has a capacity"),
    ("fair_turns", plain, {"q": QueueConfig(fair_weights={"a": 2})}, "queue 'q' has fair_weights"),
    ("weighted_turns", plain, {"q": QueueConfig(weight=2)}, "queue 'q' has a weight"),
]


@pytest.mark.parametrize(("lack", "define", "queues", "who"), CASES)
def test_a_worker_does_not_start(
    lack: str, define: Callable[[App], None], queues: dict[str, QueueConfig], who: str
) -> None:
    app = app_on(poor(lack), queues=queues)
    define(app)
    with pytest.raises(ConfigError) as caught:
        Worker(app).run_until_idle(5)
    text = str(caught.value)
    assert text.startswith(f"{who}, which the store Poor cannot do (")
    assert "use another store" in text
    assert "\n" not in text


@pytest.mark.parametrize(("lack", "define", "queues", "who"), CASES[:6])
def test_nothing_is_submitted(
    lack: str, define: Callable[[App], None], queues: dict[str, QueueConfig], who: str
) -> None:
    store = poor(lack)
    app = app_on(store, queues=queues)
    define(app)
    options: dict[str, Any] = {"queue": "q"} if queues else {}
    if "fair" in who:
        options["fair_key"] = "a"
    with pytest.raises(ConfigError, match="which the store Poor cannot do"):
        app.tasks["t"].call().options(**options).submit()
    assert store.stats() == []


def test_jobs_that_wait_for_others_need_dependencies() -> None:
    app = app_on(poor("dependencies"))
    task = app.task(name="t")(_nothing)
    with pytest.raises(ConfigError, match="a job of 't' waits for other jobs"):
        app.submit(msgspec.structs.replace(task.call(), after=(Dependency("x"),)))


def test_conditions_of_workflows_need_workflows() -> None:
    app = app_on(poor("workflows"))
    task = app.task(name="t")(_nothing)
    app.submit(task.call())
    with pytest.raises(ConfigError, match="a job of 't' has run_if or fail_fast"):
        app.submit(msgspec.structs.replace(task.call(), fail_fast=True))


def test_what_the_program_does_not_use_is_not_asked_for() -> None:
    app = app_on(poor(*(set(CAPABILITIES) - {"wakeups"})))
    task = app.task(name="t")(_nothing)
    task.delay()
    assert Worker(app).run_until_idle(30).succeeded == 1


def test_required_capabilities_of_a_given_store() -> None:
    with pytest.raises(ConfigError, match="require names 'durable', which the store Poor cannot"):
        app_on(poor(), require=("durable",))


def test_required_capabilities_of_a_url_are_checked_when_it_is_opened() -> None:
    app = App(Config(transport="memory://", require=("shared",)))
    task = app.task(name="t")(_nothing)
    with pytest.raises(ConfigError) as caught:
        task.delay()
    assert str(caught.value) == (
        "require names 'shared', which the store memory:// cannot do (only one process can use "
        "it): take it off or use another store, e.g. sqlite:///jobs.db"
    )
    with pytest.raises(ConfigError):  # and the next time
        Worker(app).run_until_idle(5)


def test_a_url_with_a_password_is_not_told() -> None:
    app = App(Config(transport="shelf://user:secret@host"))
    assert app.store_name == "shelf://"


def test_eager_apps_have_a_store_of_their_own() -> None:
    app = App(Config(eager=True, require=("durable", "shared")))
    task = app.task(name="t")(_nothing)
    task.delay().get()


@pytest.mark.parametrize("value", [["durable"], ("durabel",), ("limitations",), "durable"])
def test_require_is_checked(value: Any) -> None:
    with pytest.raises(ConfigError, match="require must be"):
        Config(require=value)


def test_every_capability_can_be_required() -> None:
    fields = msgspec.structs.asdict(open_transport("memory://", clock=SystemClock()).capabilities)
    assert set(CAPABILITIES) == {name for name, value in fields.items() if isinstance(value, bool)}


def test_the_environment_gives_names_with_commas() -> None:
    config = Config.from_env({"TASKMQ_REQUIRE": "durable, shared", "TASKMQ_PLUGINS": "a.b"})
    assert (config.require, config.plugins) == (("durable", "shared"), ("a.b",))


def test_advice_for_every_capability() -> None:
    for name in CAPABILITIES:
        app = App(Config(require=(name,)))
        store = poor(name)
        with pytest.raises(ConfigError, match=re.escape(f"require names {name!r}")):
            App(app.config, transport=store)
