"""What an ``amqp://`` or ``kombu+…://`` URL says."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from taskmq.checks import nearest
from taskmq.errors import ConfigError
from taskmq.urls import without_passwords

__all__ = ["GENERIC", "Options", "parse", "without_password"]

GENERIC = "kombu+"
"""Begins the scheme of any other broker that kombu knows."""
FORWARDED = "transport."
"""Begins the name of an option that goes to kombu's transport as it is."""
AMQP = ("amqp", "amqps")
QUEUE_TYPES = ("classic", "quorum")
KNOWN = (
    "state",
    "namespace",
    "queue_type",
    "max_priority",
    "queue_expires",
    "publish_timeout",
    "connect_timeout",
    "heartbeat",
    "patience",
    "without_broker",
    "ca",
    "cert",
    "key",
)
EXAMPLE = "amqp://user:password@host/vhost?state=sqlite:////var/lib/app/jobs.db"
NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass(frozen=True)
class Options:
    """Where broker and state are, and how they are used. Durations are seconds."""

    broker: str
    """The URL for kombu, without our options; several of AMQP with ``;`` between them."""
    state: str
    """The URL of the transport that has the jobs."""
    namespace: str = "taskmq"
    queue_type: str = "classic"
    max_priority: int = 10
    """``x-max-priority`` of classic queues; 0: without priorities."""
    queue_expires: float | None = None
    """The broker deletes queues that nobody used for so long."""
    publish_timeout: float = 5.0
    connect_timeout: float = 5.0
    heartbeat: float = 10.0
    patience: float = 0.02
    """How long an exchange waits for the message of a job that it knows to be there."""
    without_broker: str = "refuse"
    """What `enqueue` does without the broker: ``refuse`` or ``store``."""
    tls: dict[str, str] = field(default_factory=dict)
    """``ca``, ``cert`` and ``key``: paths of PEM files."""
    forwarded: dict[str, object] = field(default_factory=dict)
    """Options of kombu's transport."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The URLs to try, in order."""
        return tuple(self.broker.split(";")) if self.is_amqp else (self.broker,)

    @property
    def is_amqp(self) -> bool:
        return urlsplit(self.broker).scheme in AMQP

    @property
    def where(self) -> str:
        """The broker for people, without a password."""
        return without_password(self.broker)


def parse(url: str) -> Options:
    """Read a URL. Raises `ConfigError` that says what to write instead.

    >>> parse("amqp://localhost/jobs?state=sqlite:///jobs.db").state
    'sqlite:///jobs.db'
    """
    shown = without_password(url)
    broker, _, query = url.partition("?")
    if broker.startswith(GENERIC):
        broker = broker.removeprefix(GENERIC)
    for one in broker.split(";"):
        _check_address(shown, one)
    given = dict(parse_qsl(query, keep_blank_values=True))
    forwarded = {name: given.pop(name) for name in list(given) if name.startswith(FORWARDED)}
    for name in given:
        if name not in KNOWN:
            raise ConfigError(
                f"{shown!r}: no option {name!r}{nearest(name, KNOWN)} (there are: "
                f"{', '.join(KNOWN)}; what has a & or ? of its own is written with %26 and %3F)"
            )
    state = given.get("state", "")
    if "://" not in state:
        raise ConfigError(
            f"{shown!r}: a broker only delivers; say where the jobs are kept: {EXAMPLE}"
        )
    if state.startswith((*(f"{scheme}://" for scheme in AMQP), GENERIC)):
        raise ConfigError(f"{shown!r}: state must be a store of its own, not a broker")
    return Options(
        broker=broker,
        state=state,
        namespace=_namespace(shown, given.get("namespace", Options.namespace)),
        queue_type=_one_of(shown, "queue_type", given, QUEUE_TYPES),
        max_priority=_max_priority(shown, given),
        queue_expires=_seconds(shown, "queue_expires", given, 1.0) or None,
        publish_timeout=_seconds(shown, "publish_timeout", given, 0.1),
        connect_timeout=_seconds(shown, "connect_timeout", given, 0.1),
        heartbeat=_seconds(shown, "heartbeat", given, 0.0),
        patience=_seconds(shown, "patience", given, 0.0),
        without_broker=_one_of(shown, "without_broker", given, ("refuse", "store")),
        tls={name: given[name] for name in ("ca", "cert", "key") if name in given},
        forwarded={
            name.removeprefix(FORWARDED): _value(value) for name, value in forwarded.items()
        },
    )


def without_password(url: str) -> str:
    """A URL without its options and with stars for the password."""
    return without_passwords(url.partition("?")[0])


def _check_address(shown: str, broker: str) -> None:
    try:
        parts = urlsplit(broker)
        parts.port  # noqa: B018  # raises
    except ValueError as error:
        raise ConfigError(f"{shown!r} is no URL: {error}; write e.g. {EXAMPLE}") from None
    if parts.scheme in AMQP and not parts.hostname:
        raise ConfigError(f"{shown!r} names no host; write e.g. {EXAMPLE}")


def _namespace(shown: str, name: str) -> str:
    if not NAMESPACE.fullmatch(name):
        raise ConfigError(
            f"{shown!r}: namespace must be 1 to 64 letters, digits or ._:- characters, got {name!r}"
        )
    return name


def _one_of(shown: str, name: str, given: dict[str, str], known: tuple[str, ...]) -> str:
    value = given.get(name, str(getattr(Options, name)))
    if value not in known:
        hint = nearest(value, known)
        raise ConfigError(f"{shown!r}: {name} must be {' or '.join(known)}, got {value!r}{hint}")
    return value


def _max_priority(shown: str, given: dict[str, str]) -> int:
    text = given.get("max_priority")
    if text is None:
        return 0 if given.get("queue_type") == "quorum" else Options.max_priority
    if not text.isdecimal() or int(text) > 255:
        raise ConfigError(f"{shown!r}: max_priority must be 0 to 255, got {text!r}")
    if int(text) and given.get("queue_type") == "quorum":
        raise ConfigError(
            f"{shown!r}: quorum queues have no x-max-priority; leave out max_priority, or use "
            "queue_type=classic"
        )
    return int(text)


def _seconds(shown: str, name: str, given: dict[str, str], least: float) -> float:
    text = given.get(name)
    if text is None:
        return getattr(Options, name) or 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not least <= seconds <= 86_400:
        raise ConfigError(f"{shown!r}: {name} must be {least:g} to 86400 seconds, got {text!r}")
    return seconds


def _value(text: str) -> object:
    """An option of kombu: a number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)
