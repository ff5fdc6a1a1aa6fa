"""What a ``sqlite://`` URL says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from taskmq.checks import nearest
from taskmq.errors import ConfigError

__all__ = ["Options", "parse"]

KNOWN = ("synchronous", "busy_timeout")
EXAMPLE = "sqlite:///jobs.db (relative) or sqlite:////var/lib/app/jobs.db (absolute)"


@dataclass(frozen=True)
class Options:
    """Where the store is and how it is used."""

    path: Path
    """Absolute: a later change of directory changes nothing."""
    synchronous: str = "normal"
    busy_timeout: float = 5.0
    """How long to wait for another process's transaction, in seconds."""


def parse(url: str) -> Options:
    """Read a URL. Raises `ConfigError` that says what to write instead.

    >>> parse("sqlite:////var/lib/app/jobs.db?synchronous=full").synchronous
    'full'
    """
    location, _, query = url.partition("://")[2].partition("?")
    if not location.startswith("/"):
        if location:
            raise ConfigError(f"{url!r} names a host; a file has three slashes: {EXAMPLE}")
        raise ConfigError(f"{url!r} names no file; write {EXAMPLE}, or memory:// for none")
    name = unquote(location[1:])
    if not name.strip("/") or name == ":memory:":
        raise ConfigError(f"{url!r} names no file; write {EXAMPLE}, or memory:// for none")
    if "\0" in name:
        raise ConfigError(f"{url!r}: a file name cannot contain a NUL character")
    given = _options(url, query)
    return Options(
        path=Path(name).absolute(),
        synchronous=_synchronous(url, given.get("synchronous", Options.synchronous)),
        busy_timeout=_busy_timeout(url, given.get("busy_timeout", Options.busy_timeout)),
    )


def _options(url: str, query: str) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in KNOWN:
            raise ConfigError(
                f"{url!r}: no option {name!r}{nearest(name, KNOWN)} (there are: {', '.join(KNOWN)})"
            )
    return given


def _synchronous(url: str, text: str) -> str:
    mode = text.lower()
    if mode not in ("normal", "full"):
        hint = nearest(mode, ("normal", "full"))
        raise ConfigError(f"{url!r}: synchronous must be normal or full, got {text!r}{hint}")
    return mode


def _busy_timeout(url: str, text: str | float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 3600:
        raise ConfigError(f"{url!r}: busy_timeout must be 0 to 3600 seconds, got {text!r}")
    return seconds
