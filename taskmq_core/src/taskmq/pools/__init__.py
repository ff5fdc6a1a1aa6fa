"""How many jobs run at once, and in what: the concurrency strategies of a worker."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from taskmq.errors import ConfigError
from taskmq.plugins import PREFIX

from .base import Done, Execute, Pool, RunningJob, Setting
from .solo import SoloPool
from .threads import ThreadPool

if TYPE_CHECKING:
    import asyncio

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
ASYNCIO, PROCESSES = "asyncio", "processes"


def make_pool(kind: str, concurrency: int, setting: Setting | None = None) -> Pool:
    """A pool by its name in the configuration. Raises `ConfigError` for an unknown one.

    ``setting`` is for pools that need to know more of what they run.
    """
    if kind.startswith(PREFIX) and setting is not None:
        return _plugged(kind, concurrency, setting)
    if kind == PROCESSES and setting is not None:
        return _process_pool(concurrency, setting)
    if kind == ASYNCIO and setting is not None and setting.executor is not None:
        from .aio import AsyncioPool  # with asyncio, which the others do not need

        factory = _event_loop_factory(setting.config.event_loop)
        return AsyncioPool(concurrency, setting.executor, factory)
    try:
        return POOLS[kind](concurrency)
    except KeyError:
        raise ConfigError(f"no pool {kind!r} (there are: {', '.join(POOLS)})") from None


def _event_loop_factory(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        module = importlib.import_module(kind)
    except ModuleNotFoundError:
        raise ConfigError(
            f"event_loop {kind!r} is not installed: pip install 'taskmq-py[{kind}]'"
        ) from None
    factory: Callable[[], asyncio.AbstractEventLoop] = module.new_event_loop
    return factory


def _plugged(kind: str, concurrency: int, setting: Setting) -> Pool:
    make = setting.app.plugins.pool_factory(kind)
    try:
        pool: Pool = make(concurrency, setting)
    except ConfigError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise ConfigError(f"pool {kind!r} cannot be made: {text}") from error
    return pool


def _process_pool(concurrency: int, setting: Setting) -> Pool:
    # Only now: it is made of what Unix alone has, and a worker with threads need not load it.
    try:
        module = importlib.import_module("taskmq.pools.processes")
    except ModuleNotFoundError as error:
        raise ConfigError(f"pool 'processes' needs Unix: there is no {error.name} here") from None
    pool: Pool = module.ProcessPool(concurrency, setting)
    return pool
