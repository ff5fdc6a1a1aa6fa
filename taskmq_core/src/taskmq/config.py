"""Configuration: one frozen value, checked when it is built.

>>> Config(transport="sqlite:///jobs.db", concurency=8)
Traceback (most recent call last):
taskmq.errors.ConfigError: Config has no field 'concurency'; did you mean 'concurrency'?

Precedence is explicit argument, then environment variable, then default; the environment is read
only by `Config.from_env`, from the names in `Config.environment_variables`, never by import.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from .checks import (
    Check,
    boolean,
    count,
    name_of,
    nearest,
    not_negative,
    number,
    one_of,
    optional,
    positive,
    text,
)
from .envelope import DAY
from .errors import ConfigError
from .limits import Capacity, Rate, RateScope, check_rate

__all__ = ["Config", "QueueConfig"]

T = TypeVar("T")

PREFIX = "TASKMQ_"
TRUTH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False}
TRUTH |= {"off": False}
CAPABILITIES = (
    "durable",
    "shared",
    "global_priority",
    "fifo",
    "weighted_turns",
    "dependencies",
    "workflows",
    "workflow_pauses",
    "wakeups",
    "limits",
    "capacity",
    "fair_turns",
    "transactional",
)
"""What ``require`` may name: the fields of `taskmq.transport.Capabilities` that are true or not."""
NOT_SETTINGS = re.compile(r"APP|DEBUG|CELERY_.*|(SERVICE|PORT)(_.*)?")
"""Other names behind the prefix: those of the command line, those of taskmq-celery, and what
Kubernetes sets in every container beside a service that is called ``taskmq``."""


def _only_known_fields(cls: type[T]) -> type[T]:
    """Turn the TypeError for an unknown field into a `ConfigError` that names the nearest."""
    original: Callable[..., None] = cls.__init__
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]  # T is a dataclass

    @functools.wraps(original)
    def checked(self: T, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in names:
                raise ConfigError(f"{cls.__name__} has no field {name!r}{nearest(name, names)}")
        original(self, *args, **kwargs)

    setattr(cls, "__init__", checked)  # noqa: B010  # mypy forbids the plain assignment
    return cls


@_only_known_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """What is declared about one queue. Raises `ConfigError` when built wrong."""

    weight: int = 1
    """Its turns against queues of equal urgency."""
    rate_limit: str | Rate | None = None
    """How often jobs that are submitted with this configuration start, over all workers."""
    rate_scope: RateScope = "fleet"
    """``"worker"``: how often a worker with this configuration starts jobs of the queue."""
    capacity: int | None = None
    """How many jobs may wait in it: ready, delayed or held by a limit."""
    overflow: Literal["reject", "block", "drop_oldest"] = "reject"
    """What happens to one more: `QueueFull`; the same after the producer waited ``block_timeout``
    for room; or the oldest ready jobs of the lowest priority become dead letters (`queue_full`)."""
    block_timeout: float = 30.0
    max_running: int | None = None
    """How many of a worker's slots it may take. ``None``: all."""
    fair_weights: Mapping[str, float] = field(default_factory=dict)
    """Shares of those whose jobs take turns (``fair_key`` of a task); 1 for all others."""

    def __post_init__(self) -> None:
        for name, check in _QUEUE_CHECKS.items():
            check(f"QueueConfig.{name}", getattr(self, name))

    @property
    def room(self) -> Capacity | None:
        """Its capacity, as a store is told of it: blocking is up to the producer."""
        if self.capacity is None:
            return None
        drops = self.overflow == "drop_oldest"
        return Capacity(self.capacity, "drop_oldest" if drops else "reject")


@_only_known_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that can be set. Durations are seconds. Raises `ConfigError` when built wrong."""

    transport: str = "memory://"
    """URL of the store: ``memory://`` or ``sqlite:///path``."""
    default_queue: str = "default"
    queues: Mapping[str, QueueConfig] = field(default_factory=dict)
    """Declared queues; a queue that is not declared exists all the same, with weight 1."""
    concurrency: int = 4
    """Slots of a worker: how many jobs it runs at once."""
    pool: str = "threads"
    """``solo``, ``threads``, ``processes``, ``asyncio``, or ``plugin:NAME``."""
    event_loop: Literal["asyncio", "uvloop"] = "asyncio"
    """Whose loop the asyncio pool runs; ``uvloop`` has to be installed."""
    unsupported_limits: Literal["refuse", "warn"] = "refuse"
    """What a worker does about a task with a ``hard_timeout`` if its pool can kill nothing."""
    start_method: Literal["fork", "forkserver", "spawn"] | None = None
    """How the processes pool makes its children. ``None``: ``fork`` where that is safe (nothing
    but the main thread runs when the worker starts), else ``forkserver``."""
    max_jobs_per_child: int | None = None
    """Replace a child of the processes pool after so many jobs."""
    max_memory_per_child: int | None = None
    """Replace it after a job that leaves it with more than so many bytes of resident memory."""
    autoscale: tuple[int, int] | None = None
    """Least and most slots of the processes pool, which then follow the load."""
    prefetch: int | None = None
    """Most deliveries a worker holds. ``None``: adaptive, from its slots up to 256."""
    lease: float = 60.0
    """How long a worker that fell silent keeps a job before another may have it."""
    heartbeat_interval: float = 10.0
    shutdown_timeout: float = 30.0
    """How long a stopping worker waits for what is running."""
    store_results: bool = True
    """Keep return values (the state is always kept). A task can decide for itself."""
    result_ttl: float = DAY
    """How long a finished job and its result stay readable; 0 forgets a success at once."""
    key_ttl: float = DAY
    """How long an idempotency key is remembered."""
    dedup_ttl: float = DAY
    """How long after a success other jobs with its ``dedup`` key are skipped."""
    park_ttl: float = 86_400.0
    """How long a job that no worker could run stays parked before it becomes a dead letter."""
    serializer: Literal["msgspec", "json"] = "msgspec"
    """Both write the same JSON; ``json`` uses the standard library alone."""
    publish_timeout: float = 5.0
    """How long a store may take to accept jobs before `TransportUnavailable` is raised."""
    spool: str | None = None
    """Path of a file that keeps jobs while the store cannot be reached (`taskmq.spool`)."""
    max_message_bytes: int = 256 * 1024
    payload_store: str | None = None
    """URL of a place for large arguments and results: ``file:///path``, or one of fsspec."""
    offload_above: int | None = None
    """Arguments and results of more than so many bytes go there. ``None``: none does; what others
    have put there is read."""
    timezone: str = "UTC"
    log_format: Literal["json", "pretty"] = "pretty"
    events: str = "none"
    """Where events are written as JSON lines, beside the sinks that the app adds: ``none``,
    ``stdout``, ``stderr``; or the sink that is told of them, ``plugin:NAME``."""
    eager: bool = False
    """Run jobs in the calling thread when they are submitted. For tests of task logic."""
    plugins: tuple[str, ...] = ()
    """Modules with plugins that are loaded with the app (`taskmq.plugins`)."""
    require: tuple[str, ...] = ()
    """Capabilities that the store has to have (`taskmq.transport.Capabilities`), e.g.
    ``("durable", "shared")``: with another one, nothing starts and nothing is submitted."""

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            check(name, getattr(self, name))
        if self.heartbeat_interval > self.lease:
            raise ConfigError(
                f"heartbeat_interval ({self.heartbeat_interval:g} s) must not exceed lease "
                f"({self.lease:g} s): a worker that heartbeats less often looks dead"
            )

        if self.offload_above is not None and self.offload_above > self.max_message_bytes:
            raise ConfigError(
                f"offload_above ({self.offload_above:,} bytes) must not exceed max_message_bytes "
                f"({self.max_message_bytes:,}): what is between the two would be refused"
            )

    @classmethod
    def environment_variables(cls) -> dict[str, str]:
        """Every environment variable that is read, and the field that it sets."""
        return {
            f"{PREFIX}{f.name.upper()}": f.name
            for f in dataclasses.fields(cls)
            if f.name != "queues"
        }

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **explicit: Any) -> Config:
        """Fields from ``explicit``, else from the environment, else the defaults.

        Raises `ConfigError`, also for a variable ``TASKMQ_…`` that sets nothing: it is a mistake
        that would otherwise show much later.

        >>> Config.from_env({"TASKMQ_CONCURRENCY": "8"}).concurrency
        8
        """
        environ = os.environ if environ is None else environ
        _refuse_unknown(environ, cls.environment_variables())
        hints = {f.name: str(f.type) for f in dataclasses.fields(cls)}
        values = {}
        for variable, name in cls.environment_variables().items():
            if variable in environ and name not in explicit:
                values[name] = _parse(variable, environ[variable], hints[name])
                _CHECKS[name](variable, values[name])
        return cls(**{**values, **explicit})

    def replace(self, **changes: Any) -> Config:
        """A copy with ``changes``, checked again."""
        known = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return Config(**{**known, **changes})

    def weight(self, queue: str) -> int:
        """Turns of ``queue`` against others of equal urgency."""
        declared = self.queues.get(queue)
        return declared.weight if declared else 1


def _refuse_unknown(environ: Mapping[str, str], known: Mapping[str, str]) -> None:
    for name in environ:
        if not name.startswith(PREFIX) or name in known:
            continue
        if not NOT_SETTINGS.fullmatch(name.removeprefix(PREFIX)):
            raise ConfigError(f"environment variable {name} sets nothing{nearest(name, known)}")


def _parse(variable: str, text: str, hint: str) -> Any:
    """A value from the text of an environment variable, by the field's annotation."""
    try:
        if hint == "bool":
            return TRUTH[text.strip().lower()]
        if hint == "float":
            return float(text)
        if hint.startswith("tuple[str"):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if hint.startswith("tuple"):
            return tuple(int(part) for part in text.split(","))  # e.g. 2,8
        if hint.startswith("int"):
            return None if hint != "int" and text.strip().lower() == "none" else int(text)
    except (KeyError, ValueError):
        raise ConfigError(f"{variable}={text!r} is no {hint}") from None
    return text


def _queues(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a dict of queue name -> QueueConfig, got {value!r}")
    for queue, declared in value.items():
        name_of(f"{name}: a queue", queue)
        if not isinstance(declared, QueueConfig):
            raise ConfigError(f"{name}[{queue!r}] must be a QueueConfig, got {declared!r}")


def _weights(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be a dict of key -> weight, got {value!r}")
    for key, weight in value.items():
        text(f"{name}: a key", key)
        if number(f"{name}[{key!r}]", weight) <= 0:
            raise ConfigError(f"{name}[{key!r}] must be > 0, got {weight!r}")


def _autoscale(name: str, value: object) -> None:
    if not isinstance(value, tuple) or len(value) != 2:
        raise ConfigError(f"{name} must be (least, most) slots, got {value!r}")
    least, most = value
    count(f"{name}: least", least)
    count(f"{name}: most", most)
    if least > most:
        raise ConfigError(f"{name}: least ({least}) must not exceed most ({most})")


def _built_in_or_plugin(*choices: str) -> Check:
    built_in = one_of(*choices, "plugin:NAME")

    def check(name: str, value: object) -> None:
        if not isinstance(value, str) or not value.startswith("plugin:") or len(value) < 8:
            built_in(name, value)

    return check


def _names(name: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise ConfigError(f"{name} must be a tuple of names, got {value!r}")
    for each in value:
        name_of(name, each)


def _capabilities(name: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise ConfigError(f"{name} must be a tuple of capabilities, got {value!r}")
    for each in value:
        one_of(*CAPABILITIES)(name, each)


def _url(name: str, value: object) -> None:
    if not isinstance(value, str) or "://" not in value:
        raise ConfigError(
            f"{name} must be a URL such as memory:// or sqlite:///jobs.db, got {value!r}"
        )


def _place(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.partition("://")[2]:
        raise ConfigError(
            f"{name} must be a URL such as file:///var/lib/payloads or s3://bucket, got {value!r}"
        )


def _zone(name: str, value: object) -> None:
    if value == "UTC":
        return  # known without a time zone database, which slim containers lack
    import zoneinfo  # with it Python reads how it was built, half a MiB; most configs need it not

    try:
        zoneinfo.ZoneInfo(str(value))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"{name}: no time zone {value!r} on this machine") from None


_QUEUE_CHECKS: dict[str, Check] = {
    "weight": count,
    "rate_limit": optional(check_rate),
    "rate_scope": one_of(*get_args(RateScope)),
    "capacity": optional(count),
    "overflow": one_of("reject", "block", "drop_oldest"),
    "block_timeout": not_negative,
    "max_running": optional(count),
    "fair_weights": _weights,
}

_CHECKS: dict[str, Check] = {
    "transport": _url,
    "default_queue": name_of,
    "queues": _queues,
    "concurrency": count,
    "pool": _built_in_or_plugin("solo", "threads", "processes", "asyncio"),
    "event_loop": one_of("asyncio", "uvloop"),
    "unsupported_limits": one_of("refuse", "warn"),
    "start_method": optional(one_of("fork", "forkserver", "spawn")),
    "max_jobs_per_child": optional(count),
    "max_memory_per_child": optional(count),
    "autoscale": optional(_autoscale),
    "prefetch": optional(count),
    "lease": positive,
    "heartbeat_interval": positive,
    "shutdown_timeout": not_negative,
    "store_results": boolean,
    "result_ttl": not_negative,
    "key_ttl": positive,
    "dedup_ttl": positive,
    "park_ttl": positive,
    "serializer": one_of("msgspec", "json"),
    "publish_timeout": positive,
    "spool": optional(name_of),
    "max_message_bytes": count,
    "payload_store": optional(_place),
    "offload_above": optional(count),
    "timezone": _zone,
    "log_format": one_of("json", "pretty"),
    "events": _built_in_or_plugin("none", "stdout", "stderr"),
    "eager": boolean,
    "plugins": _names,
    "require": _capabilities,
}
