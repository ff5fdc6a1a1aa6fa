"""Worker names: ``name@host``, and the ``%h`` placeholders that users write in them."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from kombu.utils.imports import symbol_by_name

__all__ = (
    "anon_nodename",
    "default_nodename",
    "gethostname",
    "host_format",
    "node_format",
    "nodename",
    "nodesplit",
    "worker_direct",
)

NODENAME_DEFAULT = "celery"
NODENAME_SEP = "@"
WORKER_DIRECT_QUEUE_FORMAT = "{hostname}.dq2"

_placeholder = re.compile(r"%([%\w])")


@lru_cache(maxsize=1)
def gethostname() -> str:
    """The machine's name, asked for once."""
    return socket.gethostname()


def nodename(name: str, hostname: str) -> str:
    """``nodename("w1", "box")`` is ``w1@box``."""
    return f"{name}{NODENAME_SEP}{hostname}"


def nodesplit(name: str) -> tuple[str | None, str]:
    """The two halves of a worker's name; the first is ``None`` where there is no ``@``."""
    left, separator, right = name.partition(NODENAME_SEP)
    return (left, right) if separator else (None, left)


def default_nodename(hostname: str | None, default_name: str = NODENAME_DEFAULT) -> str:
    """Complete a worker's name: nothing, ``host``, ``name@`` and ``name@host`` are all fine."""
    name, host = nodesplit(hostname or "")
    return nodename(name or default_name, host or gethostname())


def anon_nodename(hostname: str | None = None, prefix: str = "gen") -> str:
    """The name of a process that is no worker: ``gen<pid>@host``."""
    return nodename(f"{prefix}{os.getpid()}", hostname or gethostname())


def node_format(s: str, name: str, **extra: str) -> str:
    """Expand the placeholders of ``s`` for the worker called ``name``."""
    left, host = nodesplit(name)
    return host_format(s, host, left or NODENAME_DEFAULT, p=name, **extra)


def host_format(s: str, host: str | None = None, name: str | None = None, **extra: str) -> str:
    """Expand ``%h`` (host with domain), ``%n`` (name) and ``%d`` (domain) in ``s``; ``%%`` is a
    percent sign. ``%i`` and ``%I``, the index of a child process, are 0 and nothing in the
    parent. Raises ``ValueError`` for any other.

    >>> host_format("w1@%h", "box.example.com")
    'w1@box.example.com'
    """
    host = host or gethostname()
    left, _, domain = host.partition(".")
    return _expand(
        s, {"h": host, "n": name or left, "d": domain, "i": "0", "I": "", "%": "%", **extra}
    )


def _expand(s: str, keys: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        try:
            return keys[match.group(1)]
        except KeyError:
            raise ValueError(
                f"Unknown format {match.group(0)} in {s!r}: %h is the host, %n the name, "
                "%d the domain; write %% for a percent sign"
            ) from None

    replace: Callable[[re.Match[str]], str] = value
    return _placeholder.sub(replace, s)


def __getattr__(name: str) -> Any:
    # Not made at the top: this module is loaded by every program that has a task.
    if name == "WORKER_DIRECT_EXCHANGE":
        globals()[name] = made = symbol_by_name("kombu:Exchange")("C.dq2")
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def worker_direct(hostname: Any) -> Any:
    """The queue of one worker alone (setting ``worker_direct``); a queue as it is."""
    queue = symbol_by_name("kombu:Queue")
    if isinstance(hostname, queue):
        return hostname
    name = WORKER_DIRECT_QUEUE_FORMAT.format(hostname=hostname)
    return queue(name, symbol_by_name(f"{__name__}:WORKER_DIRECT_EXCHANGE"), hostname)
