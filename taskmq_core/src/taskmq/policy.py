"""The static policy of a task: everything the decorator takes, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from .checks import (
    Check,
    boolean,
    count,
    limits_in_order,
    name_of,
    not_negative,
    one_of,
    optional,
    positive,
    priority,
)
from .envelope import AckPolicy
from .errors import ConfigError
from .limits import Rate, RateScope, check_rate, check_template
from .retry import Retry

__all__ = ["TaskPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """How jobs of a task are queued, run and retried unless a call says otherwise.

    ``queue`` and ``store_result`` default to the app's configuration. ``timeout`` is a
    cooperative deadline in seconds, which interrupts the task in the processes pool;
    ``hard_timeout`` is when its process is killed. ``max_deliveries`` is how often a worker may
    be lost with the job before it becomes a dead letter.

    ``rate_limit`` (``"100/m"`` or a `Rate`) is how often jobs start, ``concurrency_limit`` how many
    run at once, over all workers of a store: of the task, or of those that share a key. With
    ``rate_scope="worker"`` each worker keeps the rate of the task for itself.
    ``rate_key``, ``concurrency_key`` and ``fair_key`` are templates over the arguments, such as
    ``"user:{user_id}"``; ``concurrency_key`` alone means one at a time. Jobs of a queue that have a
    ``fair_key`` take turns by it. ``dedup`` is such a template too: of jobs with the same key, one
    runs, and others are skipped until ``dedup_ttl`` seconds after it succeeded.
    """

    queue: str | None = None
    priority: int = 0
    retry: Retry | None = None
    timeout: float | None = None
    hard_timeout: float | None = None
    ack: AckPolicy = "on_success"
    expires: float | None = None
    max_deliveries: int = 5
    store_result: bool | None = None
    result_ttl: float | None = None
    codec: str | None = None
    rate_limit: str | Rate | None = None
    rate_scope: RateScope = "fleet"
    rate_key: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    fair_key: str | None = None
    dedup: str | None = None
    dedup_ttl: float | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            check(name, getattr(self, name))
        limits_in_order(self.timeout, self.hard_timeout)
        if self.rate_key is not None and self.rate_limit is None:
            raise ConfigError("rate_key needs a rate_limit, such as rate_limit='100/m'")
        if self.rate_key is not None and self.rate_scope == "worker":
            raise ConfigError("rate_key: only the fleet keeps rates of keys; a worker of tasks")


def _retry(name: str, value: object) -> None:
    if not isinstance(value, Retry):
        raise ConfigError(f"{name} must be a Retry, got {value!r}")


_CHECKS: dict[str, Check] = {
    "queue": optional(name_of),
    "priority": priority,
    "retry": optional(_retry),
    "timeout": optional(positive),
    "hard_timeout": optional(positive),
    "ack": one_of(*get_args(AckPolicy)),
    "expires": optional(positive),
    "max_deliveries": count,
    "store_result": optional(boolean),
    "result_ttl": optional(not_negative),
    "codec": optional(name_of),
    "rate_limit": optional(check_rate),
    "rate_scope": one_of(*get_args(RateScope)),
    "rate_key": optional(check_template),
    "concurrency_key": optional(check_template),
    "concurrency_limit": optional(count),
    "fair_key": optional(check_template),
    "dedup": optional(check_template),
    "dedup_ttl": optional(positive),
}
