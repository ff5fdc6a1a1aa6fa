"""How many tasks a worker runs at once."""

from __future__ import annotations

from typing import Any

from celery.concurrency.base import BasePool
from celery.utils.sysinfo import available_cpu_count, cpu_budget, is_auto_concurrency
from taskmq_celery.config import slots

__all__ = ("sized",)

AUTO = "worker_concurrency='auto'"


def sized(wanted: Any, pool: type[BasePool]) -> tuple[int, str]:
    """The size for what a user set, and a line for the log, empty where there is nothing to say.

    Child processes are as many as the processors that this process may use, or fewer where a
    container's quota is less; in other pools, and without ``"auto"``, only the count matters.
    """
    if not is_auto_concurrency(wanted):
        return slots(wanted), ""
    name = pool.name or pool.__module__.rpartition(".")[2]
    if pool.engine_pool != "processes":
        count = available_cpu_count()
        return count, f"{AUTO} only sizes the prefork pool: {name} has one slot for each CPU"
    budget = cpu_budget()
    quota = (
        "no cgroup cpu quota found"
        if budget.quota is None
        else f"cgroup cpu quota={budget.quota:.2f}"
    )
    told = f"pool={name}, {quota}, available cpus={budget.available}"
    return budget.count, f"{AUTO} resolved to {budget.count} ({told})"
