"""Records as payloads under keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kombu.utils.encoding import bytes_to_str, ensure_bytes

from celery import states
from celery.result import result_from_tuple

from .records import Records

__all__ = ("KeyValueRecords",)


class KeyValueRecords(Records):
    """Keeps records by ``get``, ``set``, ``mget`` and ``delete`` of a subclass."""

    key_t: Any = ensure_bytes
    """What makes a key of text: bytes, unless the subclass says ``bytes_to_str``."""
    task_keyprefix: Any = "celery-task-meta-"
    group_keyprefix: Any = "celery-taskset-meta-"
    chord_keyprefix: Any = "chord-unlock-"
    _pause: Callable[[float, float | None, float], float]

    def _add_global_keyprefix(self) -> None:
        options = self.app.conf.get("result_backend_transport_options", None) or {}
        prefix = options.get("global_keyprefix")
        if not prefix:
            return
        if prefix[-1] not in ":_-./":
            prefix += "_"
        for name in ("task_keyprefix", "group_keyprefix", "chord_keyprefix"):
            setattr(self, name, f"{prefix}{bytes_to_str(getattr(self, name))}")

    def _encode_prefixes(self) -> None:
        for name in ("task_keyprefix", "group_keyprefix", "chord_keyprefix"):
            setattr(self, name, self.key_t(getattr(self, name)))

    # -- what a subclass does ----------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """The payload under a key; ``None`` for none."""
        raise NotImplementedError("Must implement the get method.")

    def mget(self, keys: Any) -> Any:
        """The payloads under keys: a list in their order, or a dict."""
        raise NotImplementedError("Does not support get_many")

    def set(self, key: Any, value: Any) -> Any:
        """Store a payload."""
        raise NotImplementedError("Must implement the set method.")

    def _set_with_state(self, key: Any, value: Any, state: Any) -> Any:
        return self.set(key, value)

    def delete(self, key: Any) -> Any:
        """Delete a payload."""
        raise NotImplementedError("Must implement the delete method")

    def incr(self, key: Any) -> Any:
        """Count."""
        raise NotImplementedError("Does not implement incr")

    def expire(self, key: Any, value: Any) -> Any:
        """Let a key vanish after so many seconds."""
        raise NotImplementedError("Does not implement expire")

    # -- keys --------------------------------------------------------------------------------

    def get_key_for_task(self, task_id: Any, key: Any = "") -> Any:
        """The key of a task's record."""
        if not task_id:
            raise ValueError(f"task_id must not be empty. Got {task_id!r} instead.")
        return self._get_key_for(self.task_keyprefix, task_id, key)

    def get_key_for_group(self, group_id: Any, key: Any = "") -> Any:
        """The key of a group's record."""
        if not group_id:
            raise ValueError(f"group_id must not be empty. Got {group_id!r} instead.")
        return self._get_key_for(self.group_keyprefix, group_id, key)

    def get_key_for_chord(self, group_id: Any, key: Any = "") -> Any:
        """The key of what is counted of a chord."""
        if not group_id:
            raise ValueError(f"group_id must not be empty. Got {group_id!r} instead.")
        return self._get_key_for(self.chord_keyprefix, group_id, key)

    def _get_key_for(self, prefix: Any, id: Any, key: Any = "") -> Any:
        text = id if isinstance(id, (str, bytes)) else str(id)
        return prefix + self.key_t(text) + self.key_t(key)

    def _strip_prefix(self, key: Any) -> str:
        """The id in a key of a record; another key as text."""
        key = self.key_t(key)
        for prefix in (self.task_keyprefix, self.group_keyprefix):
            if key.startswith(prefix):
                key = key[len(prefix) :]
                break
        text: str = bytes_to_str(key)
        return text

    # -- records -----------------------------------------------------------------------------

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
        meta["task_id"] = bytes_to_str(task_id)
        info = getattr(request, "delivery_info", None)
        first = isinstance(info, Mapping) and info.get("redelivered") is False
        if not first and self._get_task_meta_for(task_id)["status"] == states.SUCCESS:
            return result
        self._set_with_state(self.get_key_for_task(task_id), self.encode(meta), state)
        return result

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        payload = self.get(self.get_key_for_task(task_id))
        if not payload:
            return {"status": states.PENDING, "result": None}
        return self.decode_result(payload)

    def task_result_exists(self, task_id: str) -> bool:
        return bool(self.get(self.get_key_for_task(task_id)))

    def _forget(self, task_id: str) -> Any:
        self.delete(self.get_key_for_task(task_id))

    def _save_group(self, group_id: str, result: Any) -> Any:
        self._set_with_state(
            self.get_key_for_group(group_id),
            self.encode({"result": result.as_tuple()}),
            states.SUCCESS,
        )
        return result

    def _delete_group(self, group_id: str) -> Any:
        self.delete(self.get_key_for_group(group_id))

    def _restore_group(self, group_id: str) -> Any:
        payload = self.get(self.get_key_for_group(group_id))
        if not payload:
            return None
        meta = self.decode(payload)
        meta["result"] = result_from_tuple(meta["result"], self.app)
        return meta

    # -- many records ------------------------------------------------------------------------

    def _filter_ready(
        self,
        values: Iterable[Any],
        READY_STATES: Any = states.READY_STATES,  # noqa: N803  # Celery's
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        for key, payload in values:
            if payload is not None:
                meta = self.decode_result(payload)
                if meta["status"] in READY_STATES:
                    yield key, meta

    def _mget_to_results(
        self,
        values: Any,
        keys: Any,
        READY_STATES: Any = states.READY_STATES,  # noqa: N803  # Celery's
    ) -> dict[str, dict[str, Any]]:
        pairs = values.items() if hasattr(values, "items") else zip(keys, values, strict=True)
        ready = self._filter_ready(pairs, READY_STATES)
        return {self._strip_prefix(key): meta for key, meta in ready}

    def get_many(
        self,
        task_ids: Iterable[str],
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        max_iterations: int | None = None,
        READY_STATES: Any = states.READY_STATES,  # noqa: N803  # Celery's
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Ids and records of tasks, as they end. Raises `TimeoutError`."""
        left = {bytes_to_str(each) for each in task_ids}
        for task_id in list(left):
            meta = self._cache.get(task_id)
            if meta is not None and meta["status"] in READY_STATES:
                left.discard(task_id)
                yield task_id, meta
        looks, waited = 0, 0.0
        while left:
            keys = [self.get_key_for_task(each) for each in left]
            found = self._mget_to_results(self.mget(keys), keys, READY_STATES)
            self._cache.update(found)
            left.difference_update(found)
            for task_id, meta in found.items():
                if on_message is not None:
                    on_message(meta)
                yield task_id, meta
            looks += 1
            if not left or (max_iterations and looks >= max_iterations):
                return
            if on_interval is not None:
                on_interval()
            waited += self._pause(waited, timeout, interval)
