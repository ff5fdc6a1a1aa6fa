"""Plugins: by URL, by entry point, by a module's name; and nothing of it where nobody asks."""

import importlib.metadata
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskmq import App, Clock, Config, ConfigError, Transport
from taskmq.errors import EncodeError
from taskmq.events import CollectingSink
from taskmq.plugins import ENTRY_POINT_GROUP, Plugins, open_transport
from taskmq.pools import SoloPool
from taskmq.testing import FakeClock
from taskmq.transports import memory
from taskmq.worker import Worker


class Opened:
    """Stands where a transport would: opening is all that is looked at."""

    def __init__(self, url: str, *, clock: Clock) -> None:
        self.url = url
        self.clock = clock


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A transport package that somebody installed, for the scheme ``shelf``."""
    module = types.ModuleType("shelf_transport")
    module.from_url = Opened  # type: ignore[attr-defined]  # made here
    monkeypatch.setitem(sys.modules, "shelf_transport", module)
    points = [
        importlib.metadata.EntryPoint("shelf", "shelf_transport", ENTRY_POINT_GROUP),
        importlib.metadata.EntryPoint("broken", "not_there_at_all", ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr("taskmq.plugins.entry_points", lambda group: points)
    return module


def test_a_built_in_scheme() -> None:
    transport = open_transport("memory://")
    assert isinstance(transport, memory.MemoryTransport)
    transport.close()


def test_an_installed_scheme_gets_url_and_clock(installed: types.ModuleType) -> None:
    clock = FakeClock()
    opened: object = open_transport("shelf://a/b", clock=clock)
    assert isinstance(opened, Opened)
    assert (opened.url, opened.clock) == ("shelf://a/b", clock)


def test_an_unknown_scheme_names_the_nearest_and_all(installed: types.ModuleType) -> None:
    with pytest.raises(ConfigError) as caught:
        open_transport("sqlit:///jobs.db")
    text = str(caught.value)
    assert text.startswith("no transport for sqlit://; did you mean 'sqlite'? (there are: ")
    for scheme in ("broken", "memory", "shelf", "sqlite"):
        assert f"{scheme}://" in text


def test_a_transport_that_cannot_be_imported_is_a_setting_to_mend(
    installed: types.ModuleType,
) -> None:
    with pytest.raises(ConfigError, match=r"the transport for broken:// .*not_there_at_all"):
        open_transport("broken://x")


@pytest.mark.parametrize("url", ["jobs.db", "", "sqlite:jobs.db"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no transport URL; write e"):
        open_transport(url)


# -- modules that are loaded -------------------------------------------------------------------


class Upper:
    """A codec."""

    name = "upper"
    is_json = False

    def encode(self, value: Any) -> bytes:
        return json.dumps(value).upper().encode()

    def decode(self, data: bytes) -> Any:
        return json.loads(data.lower())


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., types.ModuleType]:
    """Makes a module that can be imported."""

    def make(name: str, register: Any = None, **attributes: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        vars(made).update(attributes)
        if register is not None:
            made.register = register  # type: ignore[attr-defined]  # made here
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return make


ModuleMaker = Callable[..., types.ModuleType]


def test_a_module_offers_everything(module: ModuleMaker) -> None:
    def register(plugins: Plugins) -> None:
        plugins.transport("mq", lambda url, clock: memory.MemoryTransport(clock))
        plugins.codec("upper", Upper)
        plugins.sink("collect", CollectingSink)
        plugins.pool("one", lambda slots, setting: SoloPool(slots))

    module("mine", register)
    app = App(
        Config(transport="mq://x", plugins=("mine",), events="plugin:collect", pool="plugin:one")
    )

    @app.task(name="t", codec="upper")
    def length(text: str) -> int:
        return len(text)

    result = length.delay("abc")
    assert Worker(app).run_until_idle(30).succeeded == 1
    assert result.get(0) == 3
    (sink,) = app.emitter._sinks
    assert isinstance(sink, CollectingSink)
    assert len(sink.events) > 2


def test_a_module_is_loaded_once(module: ModuleMaker) -> None:
    calls: list[Plugins] = []
    made = module("mine", calls.append)
    app = App(Config(plugins=("mine",)))
    app.load_plugins("mine", made)
    assert calls == [app.plugins]
    assert app.plugins.loaded == ["mine"]


def test_a_built_in_scheme_is_replaced_only_on_purpose() -> None:
    plugins = Plugins()

    def opened(url: str, *, clock: Clock) -> Transport:
        return memory.MemoryTransport(clock)

    with pytest.raises(ConfigError, match="sqlite:// is built in; pass override=True"):
        plugins.transport("sqlite", opened)
    plugins.transport("sqlite", opened, override=True)
    assert isinstance(plugins.open_transport("sqlite:///x.db"), memory.MemoryTransport)
    plugins.transport("mq", opened)
    with pytest.raises(ConfigError, match="two plugins offer the transport 'mq'"):
        plugins.transport("mq", opened)


def _fails(plugins: Plugins) -> None:
    raise ValueError("no licence")


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({}, "'mine' is no taskmq plugin: it has no register(plugins)"),
        ({"register": _fails}, "plugin 'mine' cannot be loaded: ValueError: no licence"),
        (
            {"register": _fails, "TASKMQ_PLUGIN_API": 2},
            "plugin 'mine' is written for plugin API 2, and this taskmq has 1: install a newer "
            "version of taskmq",
        ),
        (
            {"register": _fails, "TASKMQ_PLUGIN_API": 0},
            "plugin 'mine' is written for plugin API 0, and this taskmq has 1: install a newer "
            "version of the plugin",
        ),
    ],
)
def test_one_line_for_a_plugin_that_cannot_be_loaded(
    module: ModuleMaker, attributes: dict[str, Any], said: str
) -> None:
    module("mine", **attributes)
    with pytest.raises(ConfigError) as caught:
        App(Config()).load_plugins("mine")
    assert str(caught.value) == said


def test_one_line_for_a_plugin_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_broken.py").write_text("1 / 0")
    (tmp_path / "mine_needs.py").write_text("import not_there_at_all")
    app = App(Config())
    with pytest.raises(ConfigError, match="plugin 'mine_broken' cannot be loaded: ZeroDivision"):
        app.load_plugins("mine_broken")
    with pytest.raises(ConfigError, match="plugin 'mine_needs' cannot be loaded: ModuleNotFound"):
        app.load_plugins("mine_needs")
    with pytest.raises(ConfigError, match="no plugin 'mine_absent': there is no module"):
        app.load_plugins("mine_absent")


# -- entry points --------------------------------------------------------------------------------


def _point(kind: str, name: str, value: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, value, f"taskmq.{kind}")


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[importlib.metadata.EntryPoint]:
    """What is installed; to be filled."""
    every: list[importlib.metadata.EntryPoint] = []
    monkeypatch.setattr(
        "taskmq.plugins.entry_points", lambda group: [p for p in every if p.group == group]
    )
    return every


def test_a_bundle_is_found_by_the_name_that_is_asked_for(
    points: list[importlib.metadata.EntryPoint], module: ModuleMaker
) -> None:
    def register(plugins: Plugins) -> None:
        plugins.transport("mq", lambda url, clock: memory.MemoryTransport(clock))

    module("taskmq_mq", register)
    points.append(_point("plugins", "mq", "taskmq_mq"))
    assert isinstance(open_transport("mq://x"), memory.MemoryTransport)


def test_an_installed_codec_is_found_by_those_who_name_it_only(
    points: list[importlib.metadata.EntryPoint], module: ModuleMaker
) -> None:
    module("mine", Upper=Upper)
    points.append(_point("codecs", "upper", "mine:Upper"))
    producer, stranger = App(Config()), App(Config())
    task = producer.task(name="t", codec="upper")(len)
    envelope = producer.seal(task.call("x"), 0.0).envelope
    with pytest.raises(Exception, match="codec 'upper' is not registered in this app"):
        stranger.arguments_of(envelope)  # a message chooses nothing that is imported
    stranger.task(name="t", codec="upper")(len)
    stranger.load()
    assert stranger.arguments_of(envelope) == (["x"], {})


def test_a_task_with_an_unknown_codec_does_not_start(
    points: list[importlib.metadata.EntryPoint],
) -> None:
    app = App(Config())
    task = app.task(name="t", codec="uper")(len)
    with pytest.raises(ConfigError, match="codec 'uper' is not registered"):
        Worker(app)
    with pytest.raises(EncodeError, match="codec 'uper' is not registered"):
        task.delay("x")


def test_what_is_installed_may_be_broken(
    points: list[importlib.metadata.EntryPoint], module: ModuleMaker
) -> None:
    module("mine", from_url=3, Sink=_fails, Pool=_fails, TASKMQ_PLUGIN_API=1)
    points += [
        _point("transports", "mq", "mine"),
        _point("sinks", "s", "mine:Sink"),
        _point("sinks", "gone", "not_there_at_all"),
        _point("pools", "p", "mine:Pool"),
        _point("codecs", "c", "mine:Missing"),
    ]
    with pytest.raises(ConfigError, match=r"the transport for mq:// \(mine\) is not a module with"):
        open_transport("mq://x")
    with pytest.raises(ConfigError, match="the sink 's' cannot be made: TypeError"):
        App(Config(events="plugin:s"))
    with pytest.raises(ConfigError, match="the sink for 'gone' cannot be loaded: No module"):
        App(Config(events="plugin:gone"))
    with pytest.raises(ConfigError, match="no plugin offers the sink 'gon'; did you mean 'gone'"):
        App(Config(events="plugin:gon"))
    with pytest.raises(ConfigError, match="the codec for 'c' cannot be loaded: AttributeError"):
        Plugins().make_codec("c")
    with pytest.raises(ConfigError, match="pool 'plugin:p' cannot be made: TypeError"):
        Worker(App(Config(pool="plugin:p"))).run_until_idle(5)
    with pytest.raises(ConfigError, match="no plugin offers the pool 'x'"):
        Worker(App(Config(pool="plugin:x"))).run_until_idle(5)


def test_an_entry_point_of_another_version(
    points: list[importlib.metadata.EntryPoint], module: ModuleMaker
) -> None:
    module("mine", Sink=CollectingSink, TASKMQ_PLUGIN_API=7)
    points.append(_point("sinks", "s", "mine:Sink"))
    with pytest.raises(ConfigError, match="'mine:Sink' is written for plugin API 7"):
        App(Config(events="plugin:s"))


@pytest.mark.parametrize("name", ["plugin:", "thread", 3])
def test_pools_and_events_are_built_in_or_plugins(name: Any) -> None:
    with pytest.raises(ConfigError, match="pool must be one of solo, threads"):
        Config(pool=name)
    with pytest.raises(ConfigError, match="events must be one of none"):
        Config(events=name)


# -- the default path ----------------------------------------------------------------------------

SUBMIT = """
import sys
from taskmq import App, Config
app = App(Config(transport="sqlite:///jobs.db"))
@app.task(name="t")
def work(): pass
work.delay()
print(*sorted(sys.modules))
"""
NEVER = (
    "importlib.metadata",
    "kombu",
    "fsspec",
    "multiprocessing",
    "psycopg",
    "redis",
    "taskmq.cli",
    "taskmq.payloads",
    "taskmq.pools",
    "taskmq.testing",
    "taskmq.transports.memory",
    "taskmq.worker",
)


def test_the_default_path_imports_nothing_of_plugins(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUBMIT]
    # A measured child process would load what coverage needs: this one is not measured.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    run = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    loaded = run.stdout.split()
    assert "taskmq.transports.sqlite" in loaded
    assert [name for name in loaded if name in NEVER] == []
    outside = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    # What a coverage run or the environment's own start files bring along is not ours.
    assert {name for name in outside if name.startswith(("taskmq", "msgspec"))} == {
        "msgspec",
        "taskmq",
    }
