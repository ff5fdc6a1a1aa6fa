"""From a URL to a transport. Built-in schemes first, then installed entry points.

A package adds a scheme with the entry point group ``taskmq.transports``: its name is the scheme,
its value a module with ``from_url(url, *, clock) -> Transport``. Nothing is imported before a URL
asks for it.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Protocol, cast

from .checks import nearest
from .clock import Clock, SystemClock
from .errors import ConfigError
from .transport import Transport

__all__ = ["ENTRY_POINT_GROUP", "open_transport"]

ENTRY_POINT_GROUP = "taskmq.transports"
BUILT_IN = {"memory": "taskmq.transports.memory", "sqlite": "taskmq.transports.sqlite"}


class TransportModule(Protocol):
    def from_url(self, url: str, *, clock: Clock) -> Transport: ...


def open_transport(url: str, *, clock: Clock | None = None) -> Transport:
    """Open the store behind ``url``. Raises `ConfigError` for a scheme that nothing provides."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigError(f"{url!r} is no transport URL; write e.g. sqlite:///jobs.db")
    module = cast("TransportModule", _module_for(scheme))
    return module.from_url(url, clock=clock or SystemClock())


def _module_for(scheme: str) -> object:
    if scheme in BUILT_IN:
        return importlib.import_module(BUILT_IN[scheme])
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if scheme in installed:
        try:
            return installed[scheme].load()
        except ImportError as error:
            raise ConfigError(f"the transport for {scheme}:// cannot be loaded: {error}") from error
    known = sorted({*BUILT_IN, *installed})
    raise ConfigError(
        f"no transport for {scheme}://{nearest(scheme, known)} (there are: "
        f"{', '.join(f'{name}://' for name in known)})"
    )
