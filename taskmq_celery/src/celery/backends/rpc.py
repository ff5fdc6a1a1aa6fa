"""``rpc://``: results go back to whoever asked.

With Celery every program has a queue of its own for them. Here the engine's record of the task is
what is asked, by any program, and more than once.
"""

from __future__ import annotations

from typing import Any

from kombu.entity import Exchange, Queue

from .native import NativeBackend

__all__ = ("BacklogLimitExceeded", "RPCBackend")


class BacklogLimitExceeded(Exception):
    """Too much came for others before the result that was asked for; never raised here."""


class RPCBackend(NativeBackend):
    """Reads the jobs of the app's store."""

    persistent = False
    BacklogLimitExceeded = BacklogLimitExceeded
    Exchange = Exchange
    Queue = Queue

    def __init__(
        self,
        app: Any,
        connection: Any = None,
        exchange: str | None = None,
        exchange_type: str | None = None,
        persistent: bool | None = None,
        serializer: str | None = None,
        auto_delete: bool = True,
        **kwargs: Any,
    ) -> None:
        """All about the queue of results is accepted; there is none."""
        super().__init__(app, serializer=serializer, **kwargs)

    _oid: str | None = None

    @property
    def oid(self) -> str:
        """The name of this program's queue, where there is one: the thread's own, unless set."""
        return self._oid or str(self.app.thread_oid)

    @oid.setter
    def oid(self, name: str) -> None:
        self._oid = name

    def get_task_meta(self, task_id: str, backlog_limit: int = 1000) -> dict[str, Any]:
        """What is stored of a task. ``backlog_limit`` is accepted: nothing for others is read."""
        return super().get_task_meta(task_id)

    poll = get_task_meta

    def reload_group_result(self, task_id: str) -> Any:
        """The record of a group, asked for once more."""
        return super().reload_group_result(task_id)

    def destination_for(self, task_id: str, request: Any) -> tuple[str, str]:
        """Where whoever called the task waits for its result: routing key and correlation id."""
        request = request or self.app.current_task.request
        return request.reply_to, request.correlation_id or task_id

    def as_uri(self, include_password: bool = True) -> str:
        return "rpc://"
