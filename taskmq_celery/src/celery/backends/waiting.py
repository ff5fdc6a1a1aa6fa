"""How results are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from celery.exceptions import ImproperlyConfigured
from celery.result import AsyncResult, EagerResult, ResultSet
from taskmq_celery.results import are_known, wait_many

__all__ = ("EngineWaits", "SyncBackendMixin")


class EngineWaits:
    """Waiting for tasks that the engine runs: it wakes whoever waits, also for those that no
    worker can tell the backend of."""

    app: Any
    asks_engine = False
    READY_STATES: frozenset[str]
    get_task_meta: Callable[..., dict[str, Any]]

    def _in_engine(self, result: Any) -> bool:
        """Whether the engine knows every member of a result."""
        ids = [getattr(each, "id", None) for each in result.results]
        single = all(isinstance(each, AsyncResult) for each in result.results)
        return bool(ids) and single and self.asks_engine and are_known(self.app, ids)

    def _iter_engine(
        self,
        result: Any,
        timeout: float | None,
        interval: float,
        on_interval: Callable[[], Any] | None,
    ) -> Iterator[tuple[Any, Any]]:
        members: dict[Any, list[Any]] = {}
        for each in result.results:
            members.setdefault(each.id, []).append(each)
        ended = wait_many(
            self.app,
            list(members),
            timeout=timeout,
            interval=interval,
            on_interval=on_interval,
            told=self.get_task_meta,
        )
        for task_id, meta in ended:
            told = self.get_task_meta(task_id)
            known = told if told["status"] in self.READY_STATES else meta
            for each in members[task_id]:
                if each._cache is None:
                    each._maybe_set_cache(dict(known))  # whoever is to be called back is
            yield task_id, known


class SyncBackendMixin(EngineWaits):
    """How results are waited for where the only way is to look again."""

    _ensure_not_eager: Callable[[], None]
    _pause: Callable[[float, float | None, float], float]
    get_many: Callable[..., Iterator[Any]]

    def iter_native(
        self,
        result: Any,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Ids and records of a result's members, as they end; groups among them at once."""
        self._ensure_not_eager()
        if on_message is None and self._in_engine(result):
            yield from self._iter_engine(result, timeout, interval, on_interval)
            return
        ids = set()
        for each in result.results:
            if isinstance(each, ResultSet):
                yield getattr(each, "id", None), each.results
            elif isinstance(each, EagerResult):
                yield each.id, each._cache
            else:
                ids.add(each.id)
        if ids:
            yield from self.get_many(
                ids,
                timeout=timeout,
                interval=interval,
                no_ack=no_ack,
                on_message=on_message,
                on_interval=on_interval,
            )

    def wait_for_pending(
        self,
        result: Any,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        callback: Callable[..., Any] | None = None,
        propagate: bool = True,
    ) -> Any:
        """Wait for a result; gives its value or raises its error."""
        self._ensure_not_eager()
        if on_message is not None:
            raise ImproperlyConfigured("Backend does not support on_message callback")
        meta = self.wait_for(
            result.id, timeout=timeout, interval=interval, on_interval=on_interval, no_ack=no_ack
        )
        if not meta:
            return None
        result._maybe_set_cache(meta)
        return result.maybe_throw(propagate=propagate, callback=callback)

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Callable[[], Any] | None = None,
    ) -> dict[str, Any]:
        """Block until a task is finished; its record. Raises `TimeoutError`."""
        self._ensure_not_eager()
        waited = 0.0
        while True:
            meta = self.get_task_meta(task_id)
            if meta["status"] in self.READY_STATES:
                return meta
            if on_interval is not None:
                on_interval()
            waited += self._pause(waited, timeout, interval)

    def add_pending_result(self, result: Any, weak: bool = False) -> Any:
        """Somebody will wait for this one: there is nothing to prepare."""
        return result

    def remove_pending_result(self, result: Any) -> Any:
        """Nobody waits for this one any more."""
        return result

    @property
    def is_async(self) -> bool:
        """Whether results come by themselves."""
        return False
