"""Plugins: transports, codecs, event sinks and pools from outside, found when they are asked for.

A package offers them by entry points, one group a kind; nothing of it is imported before its name
is asked for, and nothing at all looks for plugins while only built-in names are used:

===================== ======================= ====================================================
group                 name                    value
===================== ======================= ====================================================
``taskmq.transports`` scheme of the URL       module with ``from_url(url, *, clock) -> Transport``
``taskmq.codecs``     the codec's wire name   a function without arguments that makes the `Codec`
``taskmq.sinks``      as in ``plugin:NAME``   likewise, the `EventSink`
``taskmq.pools``      as in ``plugin:NAME``   ``make(slots, setting) -> Pool``
``taskmq.payloads``   scheme of the URL       ``make(url) -> PayloadStore``
``taskmq.plugins``    any of these            module with ``register(plugins)``
===================== ======================= ====================================================

A module with ``register(plugins)`` offers any number of them, and need not be installed:
`Plugins.load` takes its name. ``TASKMQ_PLUGIN_API`` in a module is the version of this interface
that it was written for (`API`); another one is refused.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from .checks import nearest
from .clock import Clock, SystemClock
from .errors import ConfigError
from .transport import Transport

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from .codec import Codec
    from .events import EventSink
    from .payloads import PayloadStore

__all__ = ["API", "ENTRY_POINT_GROUP", "PREFIX", "Plugins", "open_transport"]

API = 1
"""Version of what a plugin may rely on: the ports, and this module. Raised when they break."""
PREFIX = "plugin:"
"""Before the name of a pool or sink that is not built in, in a `taskmq.Config`."""
ENTRY_POINT_GROUP = "taskmq.transports"
BUNDLES = "taskmq.plugins"
GROUPS = {
    "transport": ENTRY_POINT_GROUP,
    "codec": "taskmq.codecs",
    "sink": "taskmq.sinks",
    "pool": "taskmq.pools",
    "payload store": "taskmq.payloads",
}
BUILT_IN = {
    "amqp": "taskmq.transports.amqp",
    "amqps": "taskmq.transports.amqp",
    "kombu+": "taskmq.transports.amqp",  # with the scheme of any broker that kombu knows
    "memory": "taskmq.transports.memory",
    "postgres": "taskmq.transports.postgres",
    "postgresql": "taskmq.transports.postgres",
    "redis": "taskmq.transports.redis",
    "redis+sentinel": "taskmq.transports.redis",
    "rediss": "taskmq.transports.redis",
    "rediss+sentinel": "taskmq.transports.redis",
    "sqlite": "taskmq.transports.sqlite",
    "unix": "taskmq.transports.redis",
}


class Plugins:
    """What one app has from outside. Not global: each app has its own, as ``app.plugins``."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        """Names of the modules that were loaded, in order."""
        self._known: dict[tuple[str, str], Any] = {}

    # -- what a plugin calls -------------------------------------------------------------------

    def transport(
        self, scheme: str, from_url: Callable[..., Transport], *, override: bool = False
    ) -> None:
        """Offer a store: ``from_url(url, *, clock)`` opens it. A built-in scheme stays what it is,
        unless ``override`` says that replacing it is meant."""
        if scheme in BUILT_IN and not override:
            raise ConfigError(f"{scheme}:// is built in; pass override=True to replace it")
        self._add("transport", scheme, from_url, override)

    def codec(self, name: str, make: Callable[[], Codec], *, override: bool = False) -> None:
        """Offer a codec; ``make`` is called when the name is first used."""
        self._add("codec", name, make, override)

    def sink(self, name: str, make: Callable[[], EventSink], *, override: bool = False) -> None:
        """Offer an event sink, for ``Config(events="plugin:NAME")``."""
        self._add("sink", name, make, override)

    def pool(self, name: str, make: Callable[..., Any], *, override: bool = False) -> None:
        """Offer a pool, for ``Config(pool="plugin:NAME")``: ``make(slots, setting)`` is given a
        number of slots and a `taskmq.pools.Setting`."""
        self._add("pool", name, make, override)

    def payload_store(
        self, scheme: str, make: Callable[[str], PayloadStore], *, override: bool = False
    ) -> None:
        """Offer a place for large payloads: ``make(url)`` opens it."""
        self._add("payload store", scheme, make, override)

    def _add(self, kind: str, name: str, value: object, override: bool) -> None:
        if (kind, name) in self._known and not override:
            raise ConfigError(f"two plugins offer the {kind} {name!r}; override=True replaces one")
        self._known[kind, name] = value

    # -- loading -------------------------------------------------------------------------------

    def load(self, *modules: str | ModuleType) -> None:
        """Import modules and let each ``register`` what it offers; once for each.

        Raises `ConfigError`: no such module, it failed, it is no plugin, or one for another
        version.
        """
        for named in modules:
            name = named if isinstance(named, str) else named.__name__
            if name in self.loaded:
                continue
            module = _import(name) if isinstance(named, str) else named
            _check_api(name, module)
            register = getattr(module, "register", None)
            if not callable(register):
                raise ConfigError(f"{name!r} is no taskmq plugin: it has no register(plugins)")
            try:
                register(self)
            except Exception as error:
                raise _failed(name, error) from error
            self.loaded.append(name)

    # -- finding -------------------------------------------------------------------------------

    def open_transport(self, url: str, *, clock: Clock | None = None) -> Transport:
        """Open the store behind ``url``. Raises `ConfigError` for a scheme that nothing offers."""
        scheme, separator, _ = url.partition("://")
        if not separator:
            raise ConfigError(f"{url!r} is no transport URL; write e.g. sqlite:///jobs.db")
        from_url = self._known.get(("transport", scheme))  # first: one may replace a built-in
        built_in = BUILT_IN.get("kombu+" if scheme.startswith("kombu+") else scheme)
        if from_url is None and built_in is not None:
            from_url = importlib.import_module(built_in).from_url
        if from_url is None:
            from_url = self._find("transport", scheme)
        if from_url is None:
            known = sorted({*BUILT_IN, *self._names("transport")})
            raise ConfigError(
                f"no transport for {scheme}://{nearest(scheme, known)} (there are: "
                f"{', '.join(f'{name}://' for name in known)})"
            )
        return cast("Transport", from_url(url, clock=clock or SystemClock()))

    def make_codec(self, name: str) -> Codec | None:
        """The codec of that wire name, if a plugin offers one."""
        make = self._find("codec", name)
        return None if make is None else cast("Codec", self._made("codec", name, make))

    def make_sink(self, name: str) -> EventSink:
        """A new sink; ``name`` may have the prefix. Raises `ConfigError`."""
        name = name.removeprefix(PREFIX)
        return cast("EventSink", self._made("sink", name, self._need("sink", name)))

    def pool_factory(self, name: str) -> Callable[..., Any]:
        """What makes the pool; ``name`` may have the prefix. Raises `ConfigError`."""
        return cast("Callable[..., Any]", self._need("pool", name.removeprefix(PREFIX)))

    def make_payload_store(self, scheme: str, url: str) -> PayloadStore | None:
        """The payload store behind ``url``, if a plugin offers one for its scheme."""
        make = self._find("payload store", scheme)
        if make is None:
            return None
        return cast("PayloadStore", self._made("payload store", scheme, lambda: make(url)))

    def _made(self, kind: str, name: str, make: Any) -> object:
        try:
            return make()
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the {kind} {name!r} cannot be made: {type(error).__name__}: {error}"
            ) from error

    def _need(self, kind: str, name: str) -> Any:
        found = self._find(kind, name)
        if found is None:
            known = sorted(self._names(kind))
            listed = f" (there are: {', '.join(known)})" if known else " (none is installed)"
            raise ConfigError(f"no plugin offers the {kind} {name!r}{nearest(name, known)}{listed}")
        return found

    def _find(self, kind: str, name: str) -> Any:
        """What was registered, else what is installed under that name; ``None`` if nothing is."""
        if (kind, name) not in self._known:
            self._discover(kind, name)
        return self._known.get((kind, name))

    def _discover(self, kind: str, name: str) -> None:
        for point in entry_points(GROUPS[kind]):
            if point.name == name:
                self._known[kind, name] = self._load_point(kind, point)
                return
        for point in entry_points(BUNDLES):
            if point.name == name:
                self.load(point.value.partition(":")[0])
                return

    def _load_point(self, kind: str, point: EntryPoint) -> Any:
        what = f"{point.name}://" if kind == "transport" else repr(point.name)
        try:
            value = point.load()
        except Exception as error:
            text = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: "
            text = text if isinstance(error, ImportError) else f"{text}{error}"
            raise ConfigError(f"the {kind} for {what} cannot be loaded: {text}") from error
        module = sys.modules.get(point.value.partition(":")[0])
        _check_api(point.value, value if isinstance(value, ModuleType) else module)
        if kind == "transport":
            value = getattr(value, "from_url", None)
        if not callable(value):
            wanted = "a module with from_url(url, *, clock)" if kind == "transport" else "callable"
            raise ConfigError(f"the {kind} for {what} ({point.value}) is not {wanted}")
        return value

    def _names(self, kind: str) -> Iterable[str]:
        yield from (name for known, name in self._known if known == kind)
        yield from (point.name for point in entry_points(GROUPS[kind]))


def open_transport(url: str, *, clock: Clock | None = None) -> Transport:
    """Open the store behind ``url``, built in or installed, without an app.

    Raises `ConfigError` for a scheme that nothing offers.
    """
    return Plugins().open_transport(url, clock=clock)


def entry_points(group: str) -> Iterable[EntryPoint]:
    """What installed packages declare. It reads their metadata, and is imported only where a name
    is not built in: with all that it needs it is a third of the time of `import taskmq`."""
    metadata = importlib.import_module("importlib.metadata")
    return cast("Iterable[EntryPoint]", metadata.entry_points(group=group))


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"no plugin {name!r}: there is no module {error.name!r}") from error
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error


def _failed(name: str, error: Exception) -> ConfigError:
    kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
    return ConfigError(f"plugin {name!r} cannot be loaded: {kind}{error}")


def _check_api(name: str, module: object) -> None:
    wanted = getattr(module, "TASKMQ_PLUGIN_API", API)
    if wanted != API:
        who = "taskmq" if isinstance(wanted, int) and wanted > API else "the plugin"
        raise ConfigError(
            f"plugin {name!r} is written for plugin API {wanted}, and this taskmq has {API}: "
            f"install a newer version of {who}"
        )
