"""What is around one job in its store: what `taskmq.diagnose` wants to know."""

from __future__ import annotations

from taskmq import App
from taskmq.control import paused_workflows
from taskmq.diagnose import Situation
from taskmq.envelope import load
from taskmq.errors import MessageError
from taskmq.records import JobRecord
from taskmq.states import JobState

__all__ = ["situation_of"]


def situation_of(app: App, job: JobRecord | None) -> Situation:
    """Read it from the app's store."""
    store = app.transport
    now, workers, queues = app.clock.now(), store.workers(), store.stats()
    paused, stopped = store.paused(), paused_workflows(store)
    if job is None or job.state is not JobState.WAITING:
        return Situation(now, workers, queues, paused=paused, paused_workflows=stopped)
    try:
        ids = [dependency.job for dependency in load(job.envelope).after]
    except MessageError:
        ids = []
    dependencies = dict(zip(ids, store.get(ids), strict=True))
    return Situation(now, workers, queues, dependencies, paused, stopped)
