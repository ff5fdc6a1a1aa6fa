"""``app.conf``: spellings, sources, precedence."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import logging
import pickle
import sys
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from celery import Celery
from celery.app.defaults import DEFAULTS, find
from celery.exceptions import ImproperlyConfigured

pytestmark = pytest.mark.unit

MakeApp = Callable[..., Any]


class New:
    task_always_eager = True
    broker_url = "memory://new"
    my_extension = 1


class Old:
    CELERY_ALWAYS_EAGER = True
    BROKER_URL = "memory://old"
    CELERY_TASK_RESULT_EXPIRES = 5


class Prefixed:
    CELERY_TASK_ALWAYS_EAGER = True
    CELERY_BROKER_URL = "memory://prefixed"
    CELERY_RESULT_EXPIRES = 5
    CELERY_MY_EXTENSION = 2
    UNRELATED = 3


MASKED = "s"


def bare(**settings: Any) -> Any:
    return Celery("t", set_as_current=False, **settings)


@pytest.mark.parametrize(
    ("source", "namespace", "url"),
    [
        (New, None, "memory://new"),
        (Old, None, "memory://old"),
        (Prefixed, "CELERY", "memory://prefixed"),
        ({"task_always_eager": True, "broker_url": "memory://dict"}, None, "memory://dict"),
        ({"CELERY_ALWAYS_EAGER": True, "BROKER_URL": "memory://d"}, None, "memory://d"),
        (f"{__name__}:New", None, "memory://new"),
        (f"{__name__}.New", None, "memory://new"),
    ],
)
def test_every_common_source_is_read(
    source: Any, namespace: str | None, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[New.__module__])
    app = bare()
    app.config_from_object(source, namespace=namespace)
    assert app.conf.task_always_eager is True
    assert app.conf.broker_url == url


def test_a_module_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("a_celeryconfig")
    module.timezone = "Europe/Berlin"  # type: ignore[attr-defined]  # that is what config modules are
    monkeypatch.setitem(sys.modules, "a_celeryconfig", module)
    monkeypatch.setenv("MY_CONFIG", "a_celeryconfig")
    app = bare()
    app.config_from_envvar("MY_CONFIG")
    assert app.conf.timezone == "Europe/Berlin"
    assert str(app.timezone) == "Europe/Berlin"


def test_a_missing_module_is_an_error_when_a_setting_is_read_unless_silent() -> None:
    app = bare()
    app.config_from_object("no_such_celeryconfig")
    app.conf.task_always_eager = True  # writing needs no source
    with pytest.raises(ModuleNotFoundError, match="no_such_celeryconfig"):
        _ = app.conf.broker_url
    app.config_from_object("no_such_celeryconfig", silent=True)
    assert app.conf.broker_url is None


def test_a_missing_environment_variable_is_named() -> None:
    with pytest.raises(ImproperlyConfigured, match="'NO_SUCH_VARIABLE' is not set"):
        bare().config_from_envvar("NO_SUCH_VARIABLE")
    assert bare().config_from_envvar("NO_SUCH_VARIABLE", silent=True) is False


def test_what_was_set_goes_before_the_source_and_the_source_before_defaults() -> None:
    app = bare(broker="memory://given")
    app.config_from_object(New)
    assert app.conf.broker_url == "memory://given"
    assert app.conf.my_extension == 1
    assert app.conf.task_serializer == "json"


def test_a_change_in_the_source_is_seen() -> None:
    source = types.SimpleNamespace(CELERY_TASK_ALWAYS_EAGER=True)
    app = bare()
    app.config_from_object(source, namespace="CELERY")
    assert app.conf.task_always_eager is True
    source.CELERY_TASK_ALWAYS_EAGER = False
    assert app.conf.task_always_eager is False


@pytest.mark.parametrize("name", ["CELERY_ACKS_LATE", "task_acks_late"])
def test_old_and_new_names_are_one_setting(name: str) -> None:
    app = bare()
    app.conf[name] = True
    assert app.conf.task_acks_late is app.conf["CELERY_ACKS_LATE"] is True
    assert app.conf.value_set_for("task_acks_late")
    assert not app.conf.value_set_for("task_track_started")


def test_settings_are_keywords_of_the_app() -> None:
    app = bare(task_acks_late=True, include=["m"], my_extension=3, CELERY_TIMEZONE="UTC")
    assert (app.conf.task_acks_late, app.conf.include) == (True, ["m"])
    assert (app.conf.my_extension, app.conf.timezone) == (3, "UTC")
    assert app.conf.changes["task_acks_late"] is True


def test_what_was_changed_can_be_read_as_pytest_celery_does() -> None:
    app = bare(task_acks_late=True)
    app.conf.worker_concurrency = 2
    changes = app.conf.changes.copy()
    del changes["deprecated_settings"]
    assert changes == {"task_acks_late": True, "worker_concurrency": 2}
    copied = pickle.loads(pickle.dumps(app))  # noqa: S301  # its own
    assert copied.conf.changes == app.conf.changes


def test_a_namespace_may_be_set_later() -> None:
    app = bare()
    app.namespace = "CELERY"
    app.conf.update(CELERY_TASK_ALWAYS_EAGER=True, CELERY_OWN="x")
    assert app.conf.task_always_eager is True
    assert app.conf.own == "x"


def test_the_environment_goes_before_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    app = bare(broker="amqp://", backend="redis://")
    monkeypatch.setenv("CELERY_BROKER_URL", "memory://env")
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "rpc://")
    assert (app.conf.broker_url, app.conf.result_backend) == ("memory://env", "rpc://")
    monkeypatch.setenv("CELERY_BROKER_WRITE_URL", "memory://write")
    assert app.conf.broker_write_url == "memory://write"
    assert app.conf.broker_read_url == "memory://env"
    monkeypatch.delenv("CELERY_BROKER_URL")
    assert app.conf.broker_url == "amqp://"


def test_defaults_that_are_containers_belong_to_one_app() -> None:
    app = bare()
    app.conf.beat_schedule["x"] = 1
    assert bare().conf.beat_schedule == {}
    assert DEFAULTS["beat_schedule"] == {}


def test_it_is_a_mapping() -> None:
    app = bare(task_acks_late=True)
    as_dict = dict(app.conf)
    assert as_dict["task_acks_late"] is True
    assert set(DEFAULTS) <= set(as_dict)
    assert app.conf.get("nothing", 4) == 4
    assert "nothing" not in app.conf
    with pytest.raises(KeyError, match="nothing"):
        app.conf["nothing"]
    with pytest.raises(AttributeError, match="'Settings' object has no attribute 'nothing'"):
        _ = app.conf.nothing
    other = bare()
    other.conf.update(as_dict)
    assert other.conf.task_acks_late is True


def test_looking_up_by_parts() -> None:
    conf = bare().conf
    assert conf.find_value_for_key("extended", "result") is False
    assert conf.get_by_parts("task", "default", "queue") == "celery"
    assert conf.first("nothing", "task_default_queue") == "celery"
    assert find("always_eager")[:2] == ("task", "always_eager")
    with pytest.raises(KeyError):
        find("no_such_thing")


def test_a_misspelled_setting_is_named_once_with_the_nearest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = bare(task_alwys_eager=True, singleton_lock=1, cassandra_secure_bundle_path="/bundle.zip")
    with caplog.at_level(logging.WARNING):
        assert app.conf.task_always_eager is False
        assert app.conf.task_acks_late is False
    assert [record.getMessage() for record in caplog.records] == [
        "unknown setting 'task_alwys_eager' is kept but has no effect; "
        "did you mean 'task_always_eager'?"
    ]


def test_secrets_are_hidden_from_people() -> None:
    conf = bare(broker="redis://me:secret@host/0", redis_password=MASKED, timezone="UTC").conf
    assert conf.humanize() == (
        "broker_url: redis://me:********@host/0\nredis_password: ********\ntimezone: UTC"
    )


def test_defaults_of_an_extension_go_before_celerys() -> None:
    app = bare()
    app.add_defaults({"my_extension": 9, "task_default_queue": "x"})
    assert (app.conf.my_extension, app.conf.task_default_queue) == (9, "x")


def test_settings_on_a_command_line() -> None:
    app = bare()
    app.config_from_cmdline(["worker.concurrency=4", 'imports=["a"]', "task.acks_late=yes"])
    conf = app.conf
    assert (conf.worker_concurrency, conf.imports, conf.task_acks_late) == (4, ("a",), True)
    with pytest.raises(ImproperlyConfigured, match=r"no setting 'worker\.speed'"):
        app.config_from_cmdline(["worker.speed=4"])
    with pytest.raises(ImproperlyConfigured, match="worker_prefetch_multiplier wants a int"):
        app.config_from_cmdline(["worker.prefetch_multiplier=many"])


def test_settings_of_the_programs_own_on_a_command_line() -> None:
    app = bare()
    app.config_from_cmdline(
        [".level=(int)3", "shop.name=(string)300", 'shop.open=(list)["mo"]'], namespace="worker"
    )
    conf = app.conf
    assert (conf.worker_level, conf.shop_name, conf.shop_open) == (3, "300", ["mo"])
    with pytest.raises(ImproperlyConfigured, match="shop_level wants a"):
        app.config_from_cmdline(["shop.level=(int)high"])


def test_another_configuration_is_read_at_once() -> None:
    app = bare()
    app.config_from_object({"worker_concurrency": 10})
    assert app.conf.worker_concurrency == 10
    with pytest.raises(ModuleNotFoundError, match="missing_module"):
        app.config_from_object("missing_module.settings")
    assert app.config_from_object("missing_module.settings", silent=True) is None
    app.add_defaults({"worker_concurrency": 20})
    assert app.conf.worker_concurrency == 20
    assert app.config_from_object({"worker_concurrency": 30}, force=True) is app.conf
    assert app.conf.worker_concurrency == 30


def test_one_backend_for_all_threads_or_one_for_each() -> None:
    for shared in (False, True):
        app = bare()
        app.conf.update(result_backend="cache+memory://", result_backend_thread_safe=shared)
        with ThreadPoolExecutor(1) as other:
            assert (other.submit(getattr, app, "backend").result() is app.backend) is shared


def test_signals_tell_of_the_configuration() -> None:
    app, told = bare(), []
    app.config_from_object({"task_default_queue": "mine", "beat_schedule": {"a": 1}})

    @app.on_configure.connect
    def before(**kwargs: Any) -> None:
        told.append("configure")

    @app.on_after_configure.connect
    def after(sender: Any = None, source: Any = None, **kwargs: Any) -> None:
        told.append(source.task_default_queue)
        app.add_periodic_task(30.0, app.signature("t"), name="b")

    assert told == []
    _ = app.conf.broker_url
    assert told == ["configure", "mine"]
    assert set(app.conf.beat_schedule) == {"a", "b"}


def test_on_configure_may_be_a_method_of_the_apps_class() -> None:
    told = []

    class Own(Celery):
        def on_configure(self) -> None:  # type: ignore[override]  # a signal otherwise
            told.append(self.main)

    app = Own("own", set_as_current=False)
    assert told == []
    _ = app.conf.broker_url
    assert told == ["own"]


def test_a_misspelled_setting_is_named_when_it_is_set_later_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = bare()
    _ = app.conf.broker_url
    app.conf.update(task_alwys_eager=True)
    app.conf.task_alwys_eager = False
    assert caplog.text.count("did you mean 'task_always_eager'?") == 1


def test_with_a_namespace_the_other_attributes_are_not_even_looked_at() -> None:
    """Django's settings raise for those that must not be empty."""

    class Source:
        CELERY_TASK_ACKS_LATE = True

        @property
        def SECRET_KEY(self) -> str:  # noqa: N802
            raise ValueError("must not be empty")

    app: Any = Celery(set_as_current=False)
    app.config_from_object(Source(), namespace="CELERY")
    assert app.conf.task_acks_late is True
    assert app.conf.get("CELERY_DB_REUSE_MAX", None) is None
