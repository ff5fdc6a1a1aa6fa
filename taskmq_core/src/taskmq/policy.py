"""The static policy of a task: everything the decorator takes, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from .call import check_priority
from .envelope import AckPolicy
from .errors import ConfigError
from .retry import Retry

__all__ = ["TaskPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """How jobs of a task are queued, run and retried unless a call says otherwise.

    ``queue`` and ``store_result`` default to the app's configuration. ``timeout`` is a
    cooperative deadline in seconds. ``max_deliveries`` is how often a worker may be lost with
    the job before it becomes a dead letter.
    """

    queue: str | None = None
    priority: int = 0
    retry: Retry | None = None
    timeout: float | None = None
    ack: AckPolicy = "on_success"
    expires: float | None = None
    max_deliveries: int = 5
    store_result: bool | None = None
    result_ttl: float | None = None
    codec: str | None = None

    def __post_init__(self) -> None:
        check_priority("priority", self.priority)
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise ConfigError(f"retry must be a Retry, got {self.retry!r}")
        if self.ack not in get_args(AckPolicy):
            raise ConfigError(f"ack must be one of {get_args(AckPolicy)}, got {self.ack!r}")
        if self.max_deliveries < 1:
            raise ConfigError(f"max_deliveries must be >= 1, got {self.max_deliveries!r}")
        for name in ("timeout", "expires"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} must be > 0 seconds, got {value!r}")
