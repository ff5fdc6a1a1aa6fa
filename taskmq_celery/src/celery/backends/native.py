"""Results in the engine's own store.

State and result of a task are written by the engine in the step that ends it: a worker writes
nothing through this class. What a program writes itself (`Task.update_state`, saved groups) is kept
in the same store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from celery import states
from celery.app.configured import properly_configured
from celery.exceptions import TimeoutError
from celery.result import result_from_tuple
from taskmq_celery import notes, results

from .base import BaseBackend

__all__ = ("NativeBackend",)

TASK, GROUP = "celery.state", "celery.group"


class NativeBackend(BaseBackend):
    """Reads the jobs of the app's store."""

    written_by_worker = asks_engine = False
    supports_autoexpire = True
    supports_native_join = True

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        with properly_configured():
            meta = results.meta(self.app, task_id)
            if meta["status"] in self.READY_STATES:
                return meta
            noted = notes.read(self.app, TASK, task_id)
        return meta if noted is None else {**meta, **self.decode_result(noted)}

    get_task_meta_for = _get_task_meta_for

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

    def get_many(
        self,
        task_ids: Iterable[str],
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Ids and records of tasks, as they end. Raises `TimeoutError`."""
        with properly_configured():
            for task_id, meta in results.wait_many(
                self.app,
                list(task_ids),
                timeout=timeout,
                interval=interval,
                on_interval=on_interval,
            ):
                if on_message is not None:
                    on_message(meta)
                yield task_id, meta

    def _forget(self, task_id: str) -> None:
        with properly_configured():
            results.forget(self.app, task_id)
            notes.delete(self.app, TASK, task_id)

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: Any = None,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        meta = self._get_result_meta(result, state, traceback, request)
        with properly_configured():
            notes.write(self.app, TASK, task_id, self.encode({**meta, "task_id": task_id}))
        return result

    def _save_group(self, group_id: str, result: Any) -> Any:
        saved = self.encode({"result": self.prepare_value(result)})
        with properly_configured():
            notes.write(self.app, GROUP, group_id, saved)
        return result

    def _restore_group(self, group_id: str) -> Any:
        with properly_configured():
            noted = notes.read(self.app, GROUP, group_id)
        if noted is None:
            return None
        meta = self.decode(noted)
        return {**meta, "result": result_from_tuple(meta["result"], self.app)}

    def _delete_group(self, group_id: str) -> None:
        with properly_configured():
            notes.delete(self.app, GROUP, group_id)

    def task_result_exists(self, task_id: str) -> bool:
        meta = self._get_task_meta_for(task_id)
        return meta["status"] != states.PENDING or bool(meta.get("name"))

    def as_uri(self, include_password: bool = False) -> str:
        return super().as_uri(include_password) if self.url else "rpc://"

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return super().__reduce__(args, {"url": self.url, **(kwargs or {})})
