"""Results of tasks that ran where they were called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import states
from celery.exceptions import TaskRevokedError

from .blocking import assert_will_not_block
from .single import AsyncResult

__all__ = ("EagerResult",)


class EagerResult(AsyncResult):
    """The result of a task that ran here and now, by ``apply()``."""

    def __init__(
        self,
        id: str | None,
        ret_value: Any,
        state: str,
        traceback: str | None = None,
        name: str | None = None,
    ) -> None:
        self.id = id
        self._result = ret_value
        self._state = state
        self._traceback = traceback
        self._name = name
        self._ignored = False

    def _get_task_meta(self) -> dict[str, Any]:
        return {
            "task_id": self.id,
            "result": self._result,
            "status": self._state,
            "traceback": self._traceback,
            "name": self._name,
        }

    @property
    def _cache(self) -> dict[str, Any]:  # type: ignore[override]  # it is always there
        return self._get_task_meta()

    def exists(self) -> bool:
        return True

    def then(
        self,
        callback: Callable[..., Any],
        on_error: Callable[..., Any] | None = None,
        weak: bool = False,
    ) -> Any:
        """Call ``callback(result)`` now."""
        return self.on_ready.then(callback, on_error)

    def __del__(self) -> None:
        """Nobody waits for it."""

    def ready(self) -> bool:
        return True

    def get(  # type: ignore[override]  # Celery's signature
        self,
        timeout: float | None = None,
        propagate: bool = True,
        disable_sync_subtasks: bool = True,
        **kwargs: Any,
    ) -> Any:
        """What the task returned; raises what it raised, unless ``propagate`` is off."""
        if disable_sync_subtasks:
            assert_will_not_block()
        if self.successful():
            return self._result
        if self.state in states.PROPAGATE_STATES:
            if propagate:
                self._raise(self._result)
            return self._result
        return None

    wait = get  # type: ignore[assignment]  # the same

    def forget(self) -> None:
        """There is nothing to forget."""

    def revoke(self, *args: Any, **kwargs: Any) -> None:
        """Make the state ``REVOKED``."""
        self._state = states.REVOKED
        self._result = TaskRevokedError("revoked")
        self._traceback = None

    @property
    def supports_native_join(self) -> bool:
        return False

    def __copy__(self) -> EagerResult:
        return type(self)(*self.__reduce_args__())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.__reduce_args__()

    def __reduce_args__(self) -> tuple[Any, ...]:
        return self.id, self._result, self._state, self._traceback, self._name
