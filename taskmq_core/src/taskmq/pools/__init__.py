"""How many jobs run at once, and in what: the concurrency strategies of a worker."""

from __future__ import annotations

from collections.abc import Callable

from taskmq.errors import ConfigError

from .base import Done, Execute, Pool
from .solo import SoloPool
from .threads import ThreadPool

__all__ = ["POOLS", "Done", "Execute", "Pool", "SoloPool", "ThreadPool", "make_pool"]

POOLS: dict[str, Callable[[int], Pool]] = {"solo": SoloPool, "threads": ThreadPool}


def make_pool(kind: str, concurrency: int) -> Pool:
    """A pool by its name in the configuration. Raises `ConfigError` for an unknown one."""
    try:
        return POOLS[kind](concurrency)
    except KeyError:
        raise ConfigError(f"no pool {kind!r} (there are: {', '.join(POOLS)})") from None
