"""Results in the engine's own store.

State and result of a task are written by the engine in the step that ends it: there is nothing
here that writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from celery.app.configured import properly_configured
from celery.exceptions import TimeoutError
from taskmq_celery import results

from .base import Backend

__all__ = ("NativeBackend",)

logger = logging.getLogger(__name__)


class NativeBackend(Backend):
    """Reads the jobs of the app's store."""

    _told = False

    def get_task_meta(self, task_id: str, cache: bool = True) -> dict[str, Any]:
        with properly_configured():
            return results.meta(self.app, task_id)

    get_task_meta_for = get_task_meta

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Callable[[], Any] | None = None,
    ) -> dict[str, Any]:
        with properly_configured():
            meta = results.wait(
                self.app, task_id, timeout=timeout, interval=interval, on_interval=on_interval
            )
        if meta is None:
            raise TimeoutError("The operation timed out.")
        return meta

    def forget(self, task_id: str) -> None:
        with properly_configured():
            results.forget(self.app, task_id)

    def store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: str | None = None,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        """States of an application's own making are not kept yet: the first is logged."""
        if not self._told:
            self._told = True
            logger.warning(
                "custom state %r of task %s is not stored: update_state has no effect yet",
                state,
                task_id,
            )
        return result

    def as_uri(self, include_password: bool = False) -> str:
        return str(self.url)
