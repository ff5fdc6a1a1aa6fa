"""When a failed job runs again: a pure function of the attempt and the error."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from .checks import Check, boolean, count, not_negative, one_of
from .errors import ConfigError

__all__ = ["DEFAULT_RETRY", "Retry", "policy_of_job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry policy of a task. A task without one is never retried on an exception.

    ``max_attempts`` counts the first run. ``retry_on`` is the whitelist: an exception that is no
    instance of it fails the job at once; ``give_up_on`` takes exceptions out of it again. The
    delay before attempt ``n + 1`` is, in seconds, ``base`` (``fixed``), ``base * n`` (``linear``)
    or ``base * factor ** (n - 1)`` (``exp``), at most ``max_delay``; ``jitter`` multiplies it by
    a random factor between 0.5 and 1.5 so that failures do not come back in step.

    >>> Retry(max_attempts=5, backoff="exp", jitter=False).delay_after(3, OSError())
    4.0
    """

    max_attempts: int = 3
    backoff: Literal["fixed", "linear", "exp"] = "exp"
    base: float = 1.0
    factor: float = 2.0
    max_delay: float = 600.0
    jitter: bool = True
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            check(f"Retry.{name}", getattr(self, name))

    def delay_after(
        self,
        attempt: int,
        error: BaseException | None,
        draw: Callable[[], float] = random.random,
    ) -> float | None:
        """Seconds until the next attempt, or ``None`` if there is none.

        ``attempt`` is the one that just failed, from 1. ``error=None`` is an explicit request of
        the task: it passes the whitelist, but not the ceiling.
        """
        if attempt >= self.max_attempts or (error is not None and not self.covers(error)):
            return None
        delay = min(self.max_delay, self._backoff(attempt))
        return delay * (0.5 + draw()) if self.jitter else delay

    def covers(self, error: BaseException) -> bool:
        """Whether ``error`` is one that is worth another attempt."""
        return isinstance(error, self.retry_on) and not isinstance(error, self.give_up_on)

    def _backoff(self, attempt: int) -> float:
        if self.backoff == "fixed":
            return self.base
        if self.backoff == "linear":
            return self.base * attempt
        try:
            return self.base * self.factor ** (attempt - 1)
        except OverflowError:
            return self.max_delay


def _exceptions(name: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise ConfigError(f"{name} must be a tuple of exception classes, got {value!r}")
    for kind in value:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ConfigError(f"{name} wants exception classes, got {kind!r}")


_CHECKS: dict[str, Check] = {
    "max_attempts": count,
    "backoff": one_of("fixed", "linear", "exp"),
    "base": not_negative,
    "factor": not_negative,
    "max_delay": not_negative,
    "jitter": boolean,
    "retry_on": _exceptions,
    "give_up_on": _exceptions,
}

DEFAULT_RETRY = Retry()
"""What holds for a job that asks to be run again, of a task that has no policy."""


def policy_of_job(policy: Retry | None, max_attempts: int | None) -> Retry | None:
    """The policy of one job: that of its task, with the job's own ceiling if it has one."""
    if max_attempts is None:
        return policy
    return replace(policy or DEFAULT_RETRY, max_attempts=max_attempts)
