"""What a Redis URL says."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from taskmq.checks import nearest
from taskmq.errors import ConfigError
from taskmq.urls import without_passwords

__all__ = ["SCHEMES", "Address", "Options", "parse"]

SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel")
PORT, SENTINEL_PORT = 6379, 26379
EXAMPLE = "redis://localhost:6379/0"
SENTINEL_EXAMPLE = "redis+sentinel://host1:26379,host2:26379/mymaster/0"
NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
KNOWN = (
    "namespace",
    "db",
    "cluster",
    "connect_timeout",
    "timeout",
    "protocol",
    "sentinel_username",
    "sentinel_password",
    *TLS,
)

Address = tuple[str, int]


@dataclass(frozen=True)
class Options:
    """Where the store is and how it is reached."""

    addresses: tuple[Address, ...] = (("localhost", PORT),)
    """The server; the known nodes of a cluster; or the sentinels."""
    unix_socket: str | None = None
    service: str | None = None
    """The name that the sentinels know the servers by."""
    cluster: bool = False
    tls: bool = False
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    namespace: str = "taskmq"
    """Begins every key: applications that share a server have one each."""
    connect_timeout: float = 2.0
    timeout: float = 5.0
    """How long to wait for an answer, in seconds."""
    protocol: int = 3
    tls_options: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """For people: never with a password."""
        if self.unix_socket is not None:
            return f"Redis at {self.unix_socket}"
        places = ",".join(f"{host}:{port}" for host, port in self.addresses)
        if self.service is not None:
            return f"Redis {self.service!r} of the sentinels at {places}"
        return f"Redis {'Cluster ' if self.cluster else ''}at {places}"


def parse(url: str) -> Options:
    """Read a URL. Raises `ConfigError` that says what to write instead.

    >>> parse("redis://localhost/2?namespace=shop").namespace
    'shop'
    """
    scheme, _, _ = url.partition("://")
    if scheme not in SCHEMES:
        raise ConfigError(f"{_shown(url)}: no Redis URL; write e.g. {EXAMPLE}")
    parts = urlsplit(url)
    given = _options(url, parts.query)
    is_sentinel, is_unix = scheme.endswith("+sentinel"), scheme == "unix"
    cluster = _flag(url, given, "cluster")
    if cluster and (is_sentinel or is_unix):
        raise ConfigError(f"{_shown(url)}: cluster=1 goes with redis:// and rediss:// only")
    login, _, places = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    path = unquote(parts.path)
    service, _, database = path.strip("/").partition("/") if is_sentinel else ("", "", path)
    if is_sentinel and not service:
        raise ConfigError(f"{_shown(url)} names no service; write {SENTINEL_EXAMPLE}")
    if is_unix and not path.strip("/"):
        raise ConfigError(f"{_shown(url)} names no socket; write unix:///run/redis.sock")
    options = Options(
        addresses=_addresses(url, places, SENTINEL_PORT if is_sentinel else PORT),
        unix_socket=path if is_unix else None,
        service=service or None,
        cluster=cluster,
        tls=scheme.startswith("rediss"),
        db=_db(url, given.get("db") or ("" if is_unix else database.strip("/"))),
        username=unquote(username) or None,
        password=unquote(password) or None,
        sentinel_username=given.get("sentinel_username"),
        sentinel_password=given.get("sentinel_password"),
        namespace=_namespace(url, given.get("namespace", Options.namespace)),
        connect_timeout=_seconds(url, given, "connect_timeout", Options.connect_timeout),
        timeout=_seconds(url, given, "timeout", Options.timeout),
        protocol=_protocol(url, given.get("protocol", "3")),
        tls_options={name: given[name] for name in TLS if name in given},
    )
    if cluster and options.db:
        raise ConfigError(f"{_shown(url)}: a cluster has database 0 only")
    if options.tls_options and not options.tls:
        raise ConfigError(f"{_shown(url)}: {', '.join(options.tls_options)} need rediss://")
    return options


def _shown(url: str) -> str:
    """The URL without its passwords."""
    return repr(without_passwords(url))


def _options(url: str, query: str) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in KNOWN:
            raise ConfigError(
                f"{_shown(url)}: no option {name!r}{nearest(name, KNOWN)} "
                f"(there are: {', '.join(KNOWN)})"
            )
    return given


def _addresses(url: str, places: str, port: int) -> tuple[Address, ...]:
    try:
        split = [urlsplit(f"//{place}") for place in places.split(",")]
        return tuple((each.hostname or "localhost", each.port or port) for each in split)
    except ValueError as error:
        raise ConfigError(f"{_shown(url)}: {error}; write e.g. {EXAMPLE}") from None


def _db(url: str, text: str) -> int:
    text = text or "0"
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{_shown(url)}: the database must be a number, got {text!r}")
    return int(text)


def _namespace(url: str, text: str) -> str:
    if not NAMESPACE.fullmatch(text):
        raise ConfigError(
            f"{_shown(url)}: namespace must be 1 to 100 letters, digits, '_', '-', '.' or ':', "
            f"got {text!r}"
        )
    return text


def _flag(url: str, given: dict[str, str], name: str) -> bool:
    text = given.get(name, "0").lower()
    if text not in ("0", "1", "false", "true"):
        raise ConfigError(f"{_shown(url)}: {name} must be 0 or 1, got {text!r}")
    return text in ("1", "true")


def _seconds(url: str, given: dict[str, str], name: str, default: float) -> float:
    try:
        seconds = float(given.get(name, default))
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 3600:
        raise ConfigError(
            f"{_shown(url)}: {name} must be more than 0 and at most 3600 seconds, "
            f"got {given[name]!r}"
        )
    return seconds


def _protocol(url: str, text: str) -> int:
    if text not in ("2", "3"):
        raise ConfigError(f"{_shown(url)}: protocol must be 2 or 3, got {text!r}")
    return int(text)
