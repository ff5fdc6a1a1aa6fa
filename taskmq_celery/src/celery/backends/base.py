"""What a result backend is to the rest of Celery."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from celery import states
from celery._state import get_current_task
from celery.exceptions import TimeoutError

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("Backend", "BaseBackend", "DisabledBackend", "get_current_task")

NO_BACKEND = """
No result backend is configured.
Please see the documentation for more information.
(Set result_backend, or the environment variable CELERY_RESULT_BACKEND, to 'rpc://'.)
""".strip()


class Backend:
    """Base of result backends. A backend reads records; a subclass says where from."""

    READY_STATES = states.READY_STATES
    UNREADY_STATES = states.UNREADY_STATES
    EXCEPTION_STATES = states.EXCEPTION_STATES
    TimeoutError = TimeoutError

    supports_native_join = False
    supports_autoexpire = True
    persistent = True

    def __init__(self, app: Celery, url: str | None = None, **kwargs: Any) -> None:
        self.app = app
        self.url = url

    def as_uri(self, include_password: bool = False) -> str:
        """The URL that the backend was configured with."""
        return self.url or "disabled://"

    # -- reading -----------------------------------------------------------------------------

    def get_task_meta(self, task_id: str, cache: bool = True) -> dict[str, Any]:
        """The record of a task: status, result, traceback and so on."""
        raise NotImplementedError(f"{type(self).__name__} cannot read results")

    def get_state(self, task_id: str) -> str:
        """The state of a task; ``PENDING`` for one that nobody knows."""
        return str(self.get_task_meta(task_id)["status"])

    get_status = get_state

    def get_result(self, task_id: str) -> Any:
        """What a task returned, or the exception it ended with."""
        return self.get_task_meta(task_id).get("result")

    def get_traceback(self, task_id: str) -> str | None:
        """The traceback of a task that failed, as text."""
        found: str | None = self.get_task_meta(task_id).get("traceback")
        return found

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Callable[[], Any] | None = None,
    ) -> dict[str, Any]:
        """Block until a task is finished; its record. Raises `TimeoutError`."""
        raise NotImplementedError(f"{type(self).__name__} cannot wait for results")

    def forget(self, task_id: str) -> None:
        """Delete the record of a finished task."""
        raise NotImplementedError("backend does not implement forget.")

    # -- writing -----------------------------------------------------------------------------

    def store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: str | None = None,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Give a task another state, beside what its job in the store has."""
        raise NotImplementedError(f"{type(self).__name__} cannot store results")

    # -- told by the worker ------------------------------------------------------------------

    def process_cleanup(self) -> None:
        """After a task ran."""

    def cleanup(self) -> None:
        """Delete what is past its time; the store does that by itself."""

    def on_task_call(self, producer: Any, task_id: str) -> dict[str, Any]:
        """Before a task is sent."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.app, self.url)


BaseBackend = Backend


class DisabledBackend(Backend):
    """There is no result backend: results are not stored, and asking for one is an error."""

    def store_result(self, *args: Any, **kwargs: Any) -> None:
        """Nowhere to go."""

    def _is_disabled(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(NO_BACKEND)

    def as_uri(self, include_password: bool = False) -> str:
        return "disabled://"

    get_task_meta = get_state = get_status = get_result = get_traceback = _is_disabled
    get_task_meta_for = wait_for = get_many = ensure_chords_allowed = _is_disabled
