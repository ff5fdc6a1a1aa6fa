"""Tasks that look from time to time whether they are still wanted.

>>> @app.task(bind=True, base=AbortableTask)
... def long(self):
...     while not self.is_aborted():
...         work()
>>> long.delay().abort()

The caller and the worker need a result backend in which states can be stored.
"""

from __future__ import annotations

from typing import Any

from celery import Task
from celery.result import AsyncResult

__all__ = ("AbortableAsyncResult", "AbortableTask")

ABORTED = "ABORTED"


class AbortableAsyncResult(AsyncResult):
    """The result of a task that can be aborted."""

    def is_aborted(self) -> bool:
        """Whether `abort` was called."""
        return self.state == ABORTED

    def abort(self) -> Any:
        """Tell the task that it is not wanted any more. It is up to the task to look."""
        return self.backend.store_result(self.id, result=None, state=ABORTED, traceback=None)


class AbortableTask(Task):
    """A task that can ask `is_aborted`."""

    abstract = True

    def AsyncResult(self, task_id: str, **kwargs: Any) -> Any:  # noqa: N802  # Celery's name
        """The result of a run of this task."""
        kwargs.setdefault("app", self.app)
        kwargs.setdefault("backend", self.backend)
        return AbortableAsyncResult(task_id, **kwargs)

    def is_aborted(self, **kwargs: Any) -> bool:
        """Whether the caller does not want this run, or the one of ``task_id``, any more."""
        task_id = kwargs.get("task_id", self.request.id)
        result = self.AsyncResult(task_id)
        return isinstance(result, AbortableAsyncResult) and result.is_aborted()
