"""Results in the engine's own store.

State and result of a task are written by the engine in the step that ends it: a worker writes
nothing through this class. What a program writes itself (`Task.update_state`, saved groups) is kept
in the same store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from celery import states
from celery.app.configured import properly_configured
from celery.exceptions import TimeoutError
from celery.result import result_from_tuple
from taskmq_celery import notes, results

from .base import BaseBackend

__all__ = ("NativeBackend",)

TASK, GROUP, CHILDREN = "celery.state", "celery.group", "celery.children"
"""Kinds of notes."""


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
        deadline = None if timeout is None else time.monotonic() + timeout
        with properly_configured():
            meta = results.wait(
                self.app, task_id, timeout=timeout, interval=interval, on_interval=on_interval
            )
            if meta is None:
                raise TimeoutError("The operation timed out.")
        if meta["status"] in self.READY_STATES:
            return meta
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return super().wait_for(task_id, left, interval, no_ack, on_interval)

    def keep_children(self, task_id: str, request: Any) -> None:
        """Note which tasks a task has called; the tracer does, for a task that has called any."""
        children = self.encode(self.current_task_children(request))
        with properly_configured():
            notes.write(self.app, CHILDREN, task_id, children)

    def get_children(self, task_id: str) -> Any:
        with properly_configured():
            noted = notes.read(self.app, CHILDREN, task_id)
        return [] if noted is None else self.decode(noted)

    # -- callbacks ---------------------------------------------------------------------------

    def add_pending_result(self, result: Any, weak: bool = False) -> Any:
        """Somebody waits for this one, or wants to be called: see `AsyncResult.then`."""
        self._pending_results.concrete.setdefault(result.id, {})[id(result)] = result
        return result

    def remove_pending_result(self, result: Any) -> Any:
        waiting = self._pending_results.concrete
        members = waiting.get(result.id, {})
        members.pop(id(result), None)
        if not members:
            waiting.pop(result.id, None)
        return result

    def wait_for_pending(self, result: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # the same
        try:
            return super().wait_for_pending(result, **kwargs)
        finally:
            self.remove_pending_result(result)
            self._resolve_others()

    def _resolve_others(self) -> None:
        """Whoever else is to be called is, now that somebody has waited."""
        waiting = self._pending_results.concrete
        if not waiting:
            return
        with properly_configured():
            found = results.ended_among(self.app, list(waiting))
        for task_id, meta in found.items():
            for each in list(waiting.pop(task_id, {}).values()):
                each._maybe_set_cache(dict(meta))

    # -- many --------------------------------------------------------------------------------

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
                told=self._get_task_meta_for,
            ):
                if on_message is not None:
                    on_message(meta)
                yield task_id, meta

    def _forget(self, task_id: str) -> None:
        with properly_configured():
            results.forget(self.app, task_id)
            notes.delete(self.app, TASK, task_id)
            notes.delete(self.app, CHILDREN, task_id)

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
