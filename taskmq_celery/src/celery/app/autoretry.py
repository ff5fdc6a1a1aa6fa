"""``autoretry_for``: tasks that retry by themselves on some exceptions."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from celery.exceptions import Ignore, Retry
from celery.utils.time import get_exponential_backoff_interval

if TYPE_CHECKING:
    from .task import Task

__all__ = ("add_autoretry_behaviour",)


def add_autoretry_behaviour(task: Task, **options: Any) -> None:
    """Wrap ``task.run`` so that an exception named in ``autoretry_for`` becomes a retry.

    ``retry_backoff`` (true, or the first delay in seconds) doubles the delay with every retry, up
    to ``retry_backoff_max``; ``retry_jitter`` makes it a random time up to that. Without backoff
    the delay is ``default_retry_delay``, or what ``retry_kwargs`` says. ``dont_autoretry_for``
    takes exceptions out again.
    """

    def option(name: str, default: Any) -> Any:
        value = options.get(name)
        return getattr(task, name, default) if value is None else value

    retried = tuple(option("autoretry_for", ()))
    if not retried or hasattr(task, "_orig_run"):
        return
    excepted = (Ignore, Retry, *option("dont_autoretry_for", ()))
    retry_kwargs = dict(option("retry_kwargs", {}))
    backoff = option("retry_backoff", False)
    factor = int(max(1.0, float(backoff))) if backoff else 0
    longest = int(option("retry_backoff_max", 600))
    jitter = option("retry_jitter", True)
    original = task.run

    @wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except excepted:
            raise
        except retried as error:
            how = dict(retry_kwargs)
            if factor:
                how["countdown"] = get_exponential_backoff_interval(
                    factor=factor,
                    retries=task.request.retries,
                    maximum=longest,
                    full_jitter=jitter,
                )
            # A ceiling that the body gave to its own retry() holds for this one too.
            how.setdefault("max_retries", task.request.get("override_max_retries"))
            raise task.retry(exc=error, **how) from error

    task._orig_run = original  # type: ignore[attr-defined]  # where Celery's users find it
    task.run = run  # type: ignore[method-assign]  # that is what it is for
