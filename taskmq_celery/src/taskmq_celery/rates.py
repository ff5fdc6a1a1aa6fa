"""``rate_limit`` of tasks: how often each worker starts them."""

from __future__ import annotations

import re
from typing import Any

from taskmq import ConfigError, Rate

__all__ = ["rate_for", "rate_of_task"]

TEXT = re.compile(r"(?P<amount>\d+(?:\.\d+)?|\.\d+)(?:/(?P<unit>[smh]))?")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def rate_for(limit: Any) -> Rate | None:
    """The engine's rate for ``"10/s"``, ``"100/m"``, ``"5/h"``, or a number a second; ``None`` for
    none, and for 0. As in Celery they are evenly spaced. Raises ``ValueError``."""
    if not limit:
        return None
    found = TEXT.fullmatch(str(limit).strip())
    if found is None:
        raise ValueError(
            f"a rate limit is like '10/s', '100/m' or '5/h', or a number a second, got {limit!r}"
        )
    amount = float(found["amount"])
    return Rate(1, per=SECONDS[found["unit"]] / amount) if amount else None


def rate_of_task(app: Any, name: str) -> Rate | None:
    """That of a task, unless ``worker_disable_rate_limits``. Raises `ConfigError`."""
    limit = getattr(app._tasks.get(name), "rate_limit", None)
    if not limit or app.conf.worker_disable_rate_limits:
        return None
    try:
        return rate_for(limit)
    except ValueError as error:
        raise ConfigError(f"rate_limit of task {name}: {error}") from error
