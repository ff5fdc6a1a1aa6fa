"""Requests whose task is run by a pool that a program made itself (`celery.concurrency`)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from celery import signals
from celery.app.trace import fast_trace_task, trace_task_ret
from celery.exceptions import Retry, TaskRevokedError
from celery.platforms import signals as os_signals

from . import state

__all__ = ("PooledRequest",)

TERM = "TERM"


class PooledRequest:
    """What a request of a broker's own message can do with a pool."""

    id: Any
    type: Any
    task: Any
    app: Any
    body: Any
    request_dict: Any
    content_type: Any
    content_encoding: Any
    time_start: Any
    worker_pid: Any
    revoked: Any
    send_event: Any
    on_accepted: Any
    on_timeout: Any
    on_success: Any
    on_failure: Any
    _announce_revoked: Any
    _context: Any

    _apply_result: Any = None
    """A weak reference to what the pool has given."""
    _terminate_on_ack: tuple[Any, int] | None = None
    """The pool that is to end it, and the signal, once it has begun."""
    _already_cancelled = False
    _ref: Callable[..., Any] = staticmethod(weakref.ref)

    def execute_using_pool(self, pool: Any, **kwargs: Any) -> Any:
        """Have ``pool`` run the task, and tell this request of its start and end.

        Gives what ``pool.apply_async`` gives. Raises `TaskRevokedError` if it is not to run.
        """
        if self.revoked():
            raise TaskRevokedError(self.id)
        hard, soft = self.request_dict.get("timelimit") or (None, None)
        given = pool.apply_async(
            fast_trace_task if self.app.use_fast_trace_task else trace_task_ret,
            args=(
                *(self.type, self.id, self.request_dict, self.body),
                *(self.content_type, self.content_encoding),
            ),
            accept_callback=self.on_accepted,
            timeout_callback=self.on_timeout,
            callback=self.on_success,
            error_callback=self.on_failure,
            soft_timeout=soft or self.task.soft_time_limit,
            timeout=hard or self.task.time_limit,
            correlation_id=self.id,
        )
        self._apply_result = None if given is None else self._ref(given)
        return given

    def terminate(self, pool: Any, signal: str | int | None = None) -> None:
        """End it, as revoked: now, or as soon as it has begun."""
        number = os_signals.signum(signal or TERM)
        if self.time_start:
            pool.terminate_job(self.worker_pid, number)
            self._announce_revoked("terminated", True, number, False)
        else:
            self._terminate_on_ack = pool, number
        self._end_call(number)

    def cancel(self, pool: Any, signal: str | int | None = None, emit_retry: bool = True) -> None:
        """End its run, if it has begun; ``emit_retry``: and tell of it as of a retry."""
        number = os_signals.signum(signal or TERM)
        if self.time_start:
            pool.terminate_job(self.worker_pid, number)
            self._announce_cancelled(emit_retry)
        self._end_call(number)

    def _end_call(self, number: int) -> None:
        given = self._apply_result and self._apply_result()
        end = getattr(given, "terminate", None)
        if end is not None:
            end(number)

    def _announce_cancelled(self, emit_retry: bool) -> None:
        state.task_ready(self)
        self.send_event("task-cancelled")
        if emit_retry:
            exc, context = Retry("cancelled"), self._context
            self.task.backend.mark_as_retry(self.id, exc, request=context)
            self.task.on_retry(exc, self.id, context.args, context.kwargs, None)
            signals.task_retry.send(sender=self.task, request=context, einfo=None)
        self._already_cancelled = True
