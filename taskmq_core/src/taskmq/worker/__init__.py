"""The worker: takes jobs from a store, runs them in a pool, and tells the store what became of
them. ``docs/explanation/worker.md`` is the story of a job in it."""

from __future__ import annotations

from taskmq.hooks import WorkerHook

from .health import Health
from .report import WorkerReport
from .runner import Worker

__all__ = ["Health", "Worker", "WorkerHook", "WorkerReport"]
