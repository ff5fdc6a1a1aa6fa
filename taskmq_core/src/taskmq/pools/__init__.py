"""How many jobs run at once, and in what: the concurrency strategies of a worker."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from taskmq.errors import ConfigError

from .base import Done, Execute, Pool, RunningJob, Setting
from .solo import SoloPool
from .threads import ThreadPool

__all__ = [
    "POOLS",
    "Done",
    "Execute",
    "Pool",
    "RunningJob",
    "Setting",
    "SoloPool",
    "ThreadPool",
    "make_pool",
]

POOLS: dict[str, Callable[[int], Pool]] = {"solo": SoloPool, "threads": ThreadPool}
PROCESSES = "processes"


def make_pool(kind: str, concurrency: int, setting: Setting | None = None) -> Pool:
    """A pool by its name in the configuration. Raises `ConfigError` for an unknown one.

    ``setting`` is for pools that bring what they run into other processes.
    """
    if kind == PROCESSES and setting is not None:
        return _process_pool(concurrency, setting)
    try:
        return POOLS[kind](concurrency)
    except KeyError:
        raise ConfigError(f"no pool {kind!r} (there are: {', '.join(POOLS)})") from None


def _process_pool(concurrency: int, setting: Setting) -> Pool:
    # Only now: it is made of what Unix alone has, and a worker with threads need not load it.
    try:
        module = importlib.import_module("taskmq.pools.processes")
    except ModuleNotFoundError as error:
        raise ConfigError(f"pool 'processes' needs Unix: there is no {error.name} here") from None
    pool: Pool = module.ProcessPool(concurrency, setting)
    return pool
