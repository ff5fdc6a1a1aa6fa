"""How many tasks a worker runs at once, for all that a user may have set."""

from __future__ import annotations

import os
from typing import Any

import pytest

from celery.concurrency.prefork import TaskPool as Prefork
from celery.concurrency.solo import TaskPool as Solo
from celery.concurrency.thread import TaskPool as Threads
from celery.utils import sysinfo
from celery.utils.sysinfo import available_cpu_count
from celery.worker.sizing import sized
from taskmq import ConfigError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("wanted", [None, 0])
def test_by_default_there_is_one_slot_for_each_cpu(wanted: Any) -> None:
    assert sized(wanted, Prefork) == (os.cpu_count(), "")


def test_a_number_is_that_number() -> None:
    assert sized(3, Prefork) == (3, "")
    assert sized("3", Threads) == (3, "")
    with pytest.raises(ConfigError, match="a whole number or 'auto', got 'many'"):
        sized("many", Prefork)


@pytest.mark.parametrize(
    ("quota", "count", "told"),
    [
        (None, 4, "no cgroup cpu quota found, available cpus=4"),
        (2.0, 2, "cgroup cpu quota=2.00, available cpus=4"),
        (0.5, 1, "cgroup cpu quota=0.50, available cpus=4"),
        (9.0, 4, "cgroup cpu quota=9.00, available cpus=4"),
    ],
)
def test_auto_heeds_affinity_and_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, count: int, told: str
) -> None:
    monkeypatch.setattr(sysinfo, "available_cpu_count", lambda: 4)
    monkeypatch.setattr(sysinfo, "cgroup_cpu_quota", lambda: quota)
    line = f"worker_concurrency='auto' resolved to {count} (pool=prefork, {told})"
    assert sized("auto", Prefork) == (count, line)
    assert sized(" AUTO ", Prefork)[0] == count


@pytest.mark.parametrize("pool", [Threads, Solo])
def test_auto_is_for_child_processes(pool: Any) -> None:
    count, told = sized("auto", pool)
    assert count == available_cpu_count()
    assert told.startswith("worker_concurrency='auto' only sizes the prefork pool")
