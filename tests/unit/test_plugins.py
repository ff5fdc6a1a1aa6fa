"""From a URL to a transport."""

import importlib.metadata
import sys
import types

import pytest

from taskmq import Clock, ConfigError
from taskmq.plugins import ENTRY_POINT_GROUP, open_transport
from taskmq.testing import FakeClock
from taskmq.transports import memory


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
    assert str(caught.value) == (
        "no transport for sqlit://; did you mean 'sqlite'? "
        "(there are: broken://, memory://, shelf://, sqlite://)"
    )


def test_a_transport_that_cannot_be_imported_is_a_setting_to_mend(
    installed: types.ModuleType,
) -> None:
    with pytest.raises(ConfigError, match=r"the transport for broken:// .*not_there_at_all"):
        open_transport("broken://x")


@pytest.mark.parametrize("url", ["jobs.db", "", "sqlite:jobs.db"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no transport URL; write e"):
        open_transport(url)
