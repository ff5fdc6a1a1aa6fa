"""Which store to test: a URL, or a factory of somebody else's transport."""

from __future__ import annotations

import importlib
from typing import cast
from urllib.parse import urlsplit

from taskmq.clock import Clock
from taskmq.errors import ConfigError
from taskmq.plugins import open_transport
from taskmq.transport import Transport

from .subject import OpenStore

__all__ = ["resolve"]

PLACEHOLDER = "{case}"


def resolve(spec: str) -> OpenStore:
    """What opens the stores of a target. Raises `ConfigError`.

    ``spec`` is a URL, in which ``{case}`` stands for the name of one case's store (a file URL may
    leave it out: the name is put before the suffix), or ``module:factory``, where
    ``factory(name, clock)`` opens the store of that name.
    """
    if "://" in spec:
        return _by_url(spec)
    module, separator, attribute = spec.partition(":")
    if not separator:
        raise ConfigError(f"{spec!r} is neither a URL nor module:factory")
    try:
        return cast("OpenStore", getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"cannot import {spec!r}: {error}") from None


def _by_url(url: str) -> OpenStore:
    template = url if PLACEHOLDER in url else _with_placeholder(url)

    def open_store(name: str, clock: Clock) -> Transport:
        return open_transport(template.replace(PLACEHOLDER, name), clock=clock)

    return open_store


def _with_placeholder(url: str) -> str:
    path = urlsplit(url).path.strip("/")
    if not path:
        return url  # memory://: every open is a store of its own
    stem, dot, suffix = path.rpartition(".")
    if not dot:
        raise ConfigError(
            f"{url!r}: every case needs an empty store; put {PLACEHOLDER} where the URL names it"
        )
    return url.replace(path, f"{stem}-{PLACEHOLDER}.{suffix}")
