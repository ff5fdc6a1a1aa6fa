"""What a ``postgresql://`` URL says."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from taskmq.checks import nearest
from taskmq.errors import ConfigError

__all__ = ["Options", "parse"]

OURS = ("schema", "timeout", "connections", "pooler", "create")
SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
DEFAULTS = {
    "application_name": "taskmq",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
}
"""Of libpq's own options, where the URL does not say otherwise."""
CONNECT_TIMEOUT = 5


@dataclass(frozen=True)
class Options:
    """Where the store is and how it is used."""

    conninfo: str
    """For libpq. It may hold a password: never printed."""
    where: str
    """For people: user, hosts and database."""
    hosts: int = 1
    connect_timeout: int = CONNECT_TIMEOUT
    """How long each of the hosts has to accept a connection, in seconds."""
    schema: str = "taskmq"
    timeout: float = 5.0
    """How long to wait for an answer, in seconds."""
    connections: int = 10
    """At most so many are open at once, besides the one that listens."""
    pooler: bool = False
    """A pooler in between gives every transaction another session, as PgBouncer may."""
    create: bool = True
    """A missing schema is made on first use."""


def parse(url: str) -> Options:
    """Read a URL. Raises `ConfigError` that says what to write instead.

    >>> parse("postgresql://app@db/jobs?schema=queue&sslmode=require").schema
    'queue'
    """
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    ours = {name: given.pop(name) for name in OURS if name in given}
    for name in given:
        if name not in known:
            raise ConfigError(
                f"postgresql:// URL: no option {name!r}{nearest(name, [*OURS, *known])} (ours are: "
                f"{', '.join(OURS)}; those of libpq are passed on)"
            )
    query = urlencode(given, quote_via=quote)
    try:
        values = conninfo_to_dict(f"postgresql://{parts.netloc}{parts.path}?{query}")
        hosts = str(values.get("host") or values.get("hostaddr") or "").count(",") + 1
        shared = max(2, CONNECT_TIMEOUT // hosts)  # so that there is time for the last one
        usual = {**DEFAULTS, **_user_timeout(ours), "connect_timeout": str(shared)}
        conninfo = make_conninfo("", **{**usual, **values})
    except psycopg.Error as error:
        raise ConfigError(f"postgresql:// URL: {str(error).strip()}") from None
    return Options(
        conninfo=conninfo,
        where=_where(values),
        hosts=hosts,
        connect_timeout=_connect_timeout(values.get("connect_timeout", shared)),
        schema=_schema(ours.get("schema", Options.schema)),
        timeout=_seconds(ours.get("timeout", str(Options.timeout))),
        connections=_count(ours.get("connections", str(Options.connections))),
        pooler=_choice("pooler", ours.get("pooler", "none"), "none", "transaction"),
        create=not _choice("create", ours.get("create", "on"), "on", "off"),
    )


def _user_timeout(ours: dict[str, str]) -> dict[str, str]:
    # What was sent and is not acknowledged by the other side's kernel for so long: a dead network.
    seconds = _seconds(ours.get("timeout", str(Options.timeout)))
    return {"tcp_user_timeout": str(int(seconds * 1000))}


def _connect_timeout(value: object) -> int:
    try:
        seconds = int(str(value))
    except ValueError:
        raise ConfigError(
            f"postgresql:// URL: connect_timeout must be whole seconds, got {value!r}"
        ) from None
    return seconds if seconds > 0 else 3600  # as libpq: it waits as long as the system does


def _where(values: Mapping[str, object]) -> str:
    user = f"{values['user']}@" if values.get("user") else ""
    host = values.get("host") or values.get("hostaddr") or "(local socket)"
    port = f":{values['port']}" if values.get("port") else ""
    return f"PostgreSQL at {user}{host}{port}/{values.get('dbname') or ''}"


def _schema(name: str) -> str:
    if not SCHEMA.fullmatch(name) or name.startswith("pg_"):
        raise ConfigError(
            "postgresql:// URL: schema must be 1 to 40 small letters, digits and underscores, and "
            f"must not begin with a digit or pg_, got {name!r}"
        )
    return name


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 3600:
        raise ConfigError(f"postgresql:// URL: timeout must be 0.1 to 3600 seconds, got {text!r}")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ConfigError(f"postgresql:// URL: connections must be 1 to 1000, got {text!r}")
    return int(text)


def _choice(name: str, text: str, usual: str, other: str) -> bool:
    """Whether it is the other one."""
    if text not in (usual, other):
        hint = nearest(text, (usual, other))
        raise ConfigError(
            f"postgresql:// URL: {name} must be {usual} or {other}, got {text!r}{hint}"
        )
    return text == other
